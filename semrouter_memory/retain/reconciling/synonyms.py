"""Words and phrases that say the same when two statements are compared. Pure.

Strategy: broad classes of ordinary vocabulary (who, what kind of change, how one possesses, works, lives, learns), never
single facts. A class must not join what can be said of one person side by side: a cat and a dog, a wife and a sister.
"""

import re

from semrouter_memory.retain.wordlist import words

LIGHT = words(
    "a an the of to in on at for with by from as and or that this these those which who whom it its is are was"
    " were be been doing being am has have had having do does did get gets got getting there their them they he"
    " she his her him user users will would so up down per each every via about into than really also some any just very"
    " then now currently today again anymore more any longer after all new still use uses used using utilizes"
    " named name called call calls take takes taking taken took place pay pays paid paying work works working worked"
    " cost costs costing price priced fee fees instead own owns owned back when one where while said keep keeps start started"
    " starting begin began begun beginning set daily dose dosage month monthly annual annually yearly machine specifically"
    " want wants wanted wish wishes assistant follow follows following woman man person people someone regular regularly usual"
    " usually typically often generally normally goes go going went gone become became currently presently recently"
    " list number amount total size level rate date time both only other another due total next planned scheduled"
    " because mostly mainly until avid keen passionate lot holds holding held hold possesses exists located situated called based kind type actually already since year"
)
"""Words that carry no content of their own in a statement about somebody."""

CHANGE = words(
    "switched switching moved raised raising increased increasing lowered lowering reduced reducing cut cutting changed"
    " changing updated upgraded upgrading downgraded renamed rescheduled postponed extended delayed pushed rebooked"
    " migrated migrating replaced replacing swapped promoted transferred relocated bumped revised adjusted rose risen"
    " grew fell dropped turned jumped climbed shortened expanded doubled halved brought forward shifted transitioned"
    " come improved worsened shrunk shrank slashed boosted upped deferred amended rearranged ported rebranded retitled scaled"
    " converted traded exchanged reached refinanced renegotiated corrected modified trimmed sold decided gone moving relocating"
)
"""What happens to a value; the value itself is what counts."""

_GROUPS = """
trip: vacation vacations holiday holidays trips journey travel travels traveling travelling
favorite: favourite
color: colour colors colours
allergy: allergic allergies
mother: mom mum mama mommy mummy
father: dad papa daddy
child: kid kids children
doctor: doc physician gp
flat: apartment
car: drives drive driving drove vehicle auto automobile
born: birthday birth birthdate
live: lives living lived reside resides residing residence based resident
like: likes liked prefer prefers preferred preference love loves loved enjoy enjoys enjoyed fond fan
spouse: marry married marries marriage wedded wife husband
disc: disk
phone: mobile smartphone cellphone
budget: budgets budgeted
vegetarian: veggie
teach: teaches teaching taught class classes teacher lesson lessons
plan: plans planning intend intends intending
run: ran runs runner running
speak: speaks speaking spoke speaker
empty: clear clears emptying clearing
writer: author novelist
learn: learning learned learnt study studies studying studied student
salary: earn earns earning income wage wages
play: plays playing player
smoke: smoker smokes smoking
vegan: plant-based
movie: film films movies
bike: bicycle bicycles bikes cycling cycle cycles cycled cyclist
foot: walk walks walking walked
weigh: weighs weight weighed weighing
vet: veterinarian
lawyer: attorney solicitor
developer: programmer coder
development: dev
code: codes coding program programs programming
physio: physiotherapist
nurse: nursing
journalist: reporter
bartender: bartending
hairdresser: hairstylist
policeman: policewoman
firefighter: fireman
commute: commutes commuting commuted
meeting: meets meet meetings call
buy: buys buying bought purchase purchased purchases
birthplace: hometown
big: large
internet: broadband
company: firm employer
gym: fitness
shop: store shops stores
photo: picture pictures photography photographer photographs
paint: painter paints painting
sing: singer sings singing
swim: swimmer swims swimming
cook: cooks cooking
climb: climber climbs climbing
hike: hiker hikes hiking
dance: dancer dances dancing
write: writes writing
read: reads reading reader
depart: departs departing leave leaves leaving
arrive: arrives arriving lands landing
employee: employees employs staff
roommate: roommates flatmate flatmates housemate housemates
neighbour: neighbours neighbor neighbors
repo: repository repositories repos
database: db databases
production: prod
configuration: config configs
kubernetes: k8s
postgres: postgresql
javascript: js
typescript: ts
environment: env environments
app: application apps applications
documentation: docs
deploy: deploys deployed deploying deployment deployments
host: hosts hosted hosting
collect: collects collector collecting collection
bake: bakes baking baker
knit: knits knitting knitter
sew: sews sewing
ski: skis skier skiing
surf: surfs surfer surfing
grandmother: grandma granny nan nana
grandfather: grandpa granddad
fiance: fiancee
sick: ill
certificate: cert certification certified
quiet: silent
begin: commence commences
reside: resides
exam: examination test tests exams
project: projects
subscription: subscribe subscribes subscribed subscriber membership member
anxious: anxiety
intolerant: intolerance
afraid: fear fears feared
asthmatic: asthma
diabetic: diabetes
headache: headaches
manager: boss supervisor
university: uni college
graduate: graduated graduates graduation
degree: diploma
notebook: laptop
television: tv
bill: bills
medication: medicine meds drug
insured: insurance
deadline: due
volunteer: volunteers volunteering
garden: gardening gardens gardener
home: house
attend: attends attending visit visits visiting visited
brief: concise short
answer: answers response responses reply replies
message: messages
colleague: coworker co-worker coworkers colleagues
"""


KINDS = dict.fromkeys(
    words("labrador corgi poodl beagl dachshund greyhound terrier retriever bulldog husky collie pug spaniel"), "dog"
) | dict.fromkeys(words("siames ragdoll tabby persian"), "cat")
"""Words that name an animal by its breed."""


def _forms() -> dict[str, str]:
    found: dict[str, str] = {}
    for line in _GROUPS.strip().splitlines():
        word, _, forms = line.partition(":")
        found |= dict.fromkeys((word, *forms.split()), word)
    return found


CANONICAL = _forms()

_PLAYERS = {
    "violin": "violinist",
    "cello": "cellist",
    "piano": "pianist",
    "guitar": "guitarist",
    "drum": "drummer",
    "bass": "bassist",
    "flute": "flautist flutist",
    "oboe": "oboist",
    "clarinet": "clarinetist clarinettist",
    "saxophone": "saxophonist",
    "harp": "harpist",
    "trumpet": "trumpeter",
    "organ": "organist",
    "accordion": "accordionist",
    "viola": "violist",
    "football": "footballer",
    "golf": "golfer",
    "cricket": "cricketer",
}
"""What somebody plays who is called so."""

_PHRASES = [
    *((rf"\bis an? (?:\w+ )?(?:{'|'.join(names.split())})\b", f"plays {thing}") for thing, names in _PLAYERS.items()),
    (
        r"\bis an? (?:\w+ )?(tennis|chess|football|soccer|golf|hockey|rugby|cricket|basketball|volleyball|badminton|squash|poker|padel) player\b",
        r"plays \1",
    ),
    (
        r"\bis an? (?:(?:big|huge|keen|avid|lifelong|massive|great|true|devoted|dedicated|die-hard) )?((?:[\w-]+ )?[\w-]+) (?:lover|enthusiast|aficionado|fan|buff)\b",
        r"likes \1",
    ),
    (r"\bis an? ([\w-]+) speaker\b", r"speaks \1"),
    (r"\bis an? ([\w-]+) owner\b", r"has \1"),
    (r"\bis an? ([\w-]+) (?:learner|student)\b", r"learns \1"),
    (r"\bis an? (tea|coffee|wine|beer|whisky) drinker\b", r"drinks \1"),
    (r"\bis (?:an? |the )?(?:main |primary )?(?:caregiver|carer) (?:for|of)\b", "takes care of"),
    (r"\b(?:finished|completed|got|earned|has) (?:an? |the |his |her |their )?degree (?=(?:at|from) )", "graduated "),
    (
        r"\b(?:goes to|hits|(?:works|working) out (?:at|in)|exercises (?:at|in)|trains (?:at|in)) (?:the |a )?gym\b",
        "gym",
    ),
    (r"\bduo\b(?= members)", "2"),
    (r"\btrio\b(?= members)", "3"),
    (r"\bquartet\b(?= members)", "4"),
    (r"\bquintet\b(?= members)", "5"),
    (
        r"\b(gave up|given up|abandoned|dropped|cancell?ed|scrapped|shelved)(?: on)? (?:the|her|his|their|all|any) (?:idea|plans?|thoughts?|dreams?|hopes?|intention) (?:of|to|for)\b",
        r"\1",
    ),
    (r"\b(\d+)x\b", r"\1 times"),
    (
        r"\b(?:eats|eating) meat (?:again|now)\b|\bnow eats meat\b|\b(?:started|began|resumed|went back to|is back to) eating meat\b",
        "is omnivore",
    ),
    (
        r"\b(?:was|were|got|been) (?:laid off|fired|let go|made redundant)\b|\blost (?:the|his|her|their) job\b|\bhanded in (?:his|her|their) notice\b",
        "quit",
    ),
    (r"\b(?:works?|working) (?:from home|remotely)\b|\bremote work(?:er|s)?\b", "homeoffice"),
    (r"\btakes? the (\w+) to (?:work|the office)\b", r"commutes by \1"),
    (r"\b(drives|cycles|bikes|walks) to (?:work|the office)\b", r"commutes \1"),
    (r"\bcommut(?:es|ing) to (?:work|the office)\b", "commutes"),
    (r"\bcan be (?:reached|contacted)(?: (?:by|via|at|on|under))?\b", "has"),
    (r"\b(?:does not|doesn't|never) eats? (?:any )?meat\b", "is vegetarian"),
    (r"\b(?:is )?(?:a |the )?(?:single )?(?:parent|father|mother|mom|dad) (?:of|to)\b", "has child"),
    (r"\bruns? on\b", "uses"),
    (r"\b(?:goes|going|went) for a (\d+ ?\w+ )?run\b", r"runs \1"),
    (r"\bbrought (?:forward|up)\b|\bpushed (?:back|out)\b|\bmoved (?:up|back|forward)\b", "moved"),
    (r"\bno later than\b", "by"),
    (r"\b(?:does not|doesn't|cannot|can't|unable to) tolerate (\w+)", r"\1 intolerant"),
    (r"\b(?:suffers|suffering) from\b|\b(?:was|is|been) diagnosed with\b", "has"),
    (r"\b(?:in|of) length\b|\bin (?:height|weight)\b", ""),
    (r"\b(?:is|stands) (?=\d[\d.]* ?c?m tall\b)", "height "),
    (r"\btall\b", "height"),
    (r"\bat the moment\b|\bthese days\b|\bright now\b|\bat present\b|\bfor now\b", "now"),
    (r"\bgot married to\b|\btied the knot with\b", "married"),
    (r"\bhas (?:made|decided on) (?:a|the) decision to\b|\bhas decided to\b", "decided to"),
    (r"\bis in charge of\b|\bis responsible for\b", "manages"),
    (r"\bis (?:employed|hired)\b", "works"),
    (r"\bday off\b", "dayoff"),
    (r"\bonce (?=(?:a|per|every|each)\b)", "1 times "),
    (r"\btwice\b", "2 times"),
    (r"\bgoes (?=\w+ing\b)", ""),
    (r"\buser's preferred\b", "user's favorite"),
    (r"^user's (?:job|profession|occupation) is(?: (?:to be|that of))?\b", "user works as"),
    (r"\bis (?:a )?(?:big |huge )?fan of\b|\bis (?:passionate about|into|keen on|fond of)\b", "likes"),
    (r"\bis (?:afraid|scared|terrified) of\b", "fears"),
    (r"\bis fluent in\b", "speaks fluently"),
    (r"\bgoes by(?: the name)?(?: of)?\b", "is called"),
    (r"\bcelebrates (?:her|his|their|a|the) birthday\b", "birthday is"),
    (r"\bhigh blood pressure\b", "hypertension"),
    (r"\b(?:works|working) out\b", "exercises"),
    (r"\b(?:gets|wakes) up\b", "wakes"),
    (r"\bshares an? (?:flat|apartment|house) with\b", "lives with"),
    (r"\bone of (?:the )?user's\b", "user's"),
    (r"\ba glass of\b|\ba cup of\b", ""),
    (r"\bforeign language\b", "language"),
    (r"\bmusical instrument\b", "instrument"),
    (r"\bpassed away\b", "died"),
    (r"\bvia\b", "by"),
    (r"^(user (?:(?:no longer|doesn't|does not) )?)supports? (?=[\w ]+$)", r"\1likes "),
    (r"\b(?:goes|going|went) to (?:bed|sleep)\b|\bbedtime is\b", "bedtime"),
    (r"\b(?:every|each) day\b|\bon a daily basis\b", "daily"),
    (r"\b(?:makes|is making|takes home|is paid)(?= (?:about |around |over )?(?:[$€£¥]|\d))", "salary"),
]
_REWRITES = [
    (r"\bis (?:an? )?teetotal(?:l?er)?\b|\babstains from alcohol\b", "does not drink alcohol"),
    (r"\b(?:got|received|was given) a (?:pay |salary )?(?:raise|rise|increase) to\b", "now has a salary of"),
    (r"\bis now an? (duo|trio|quartet|quintet|sextet)\b", r"now has \1 members"),
    (r"\b(\w+(?<!\bthe)) (?:mother tongue|first language)\b", r"\1 native language"),
    (r"\bemploys (\S+) (?:people|employees|staff)\b", r"has \1 employees"),
    (r"\bon (?:her|his|their|its) own\b(?=$|,| in\b| now\b)|\bby (?:her|him|them)self\b", "alone"),
    (r"\bmade the (?:move|switch|change) to\b", "switched to"),
    (r"\bended up (?=\w+ing\b)", ""),
    (
        r"\b(?:wants|would like|likes) (?:the |all )?(replies|answers|responses|messages|comments|explanations|summaries) to be (?:kept )?([\w-]+)$",
        r"prefers \2 \1",
    ),
    (r"\bgo-to\b", "favorite"),
    (r"\s(?:nowadays|these days) is\b", " is now"),
    (r"\bis an? retiree\b", "is retired"),
    (r"\bis an? non-?drinker\b", "does not drink alcohol"),
    (r"\bis an? non-?smoker\b", "does not smoke"),
    (r"\b((?:wakes|gets) up(?: every day| daily)? at) (\d{1,2})(?![\d:.]|\s?[ap]\.?m)", r"\1 \2:00"),
]
REWRITES = [(re.compile(pattern), replacement) for pattern, replacement in _REWRITES]
"""What is said in one word or one figure, in the form that the grammar knows; done before anything else."""
PHRASES = [(re.compile(pattern), replacement) for pattern, replacement in _PHRASES]
