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
    " because exists located situated called based kind type actually already since year"
)
"""Words that carry no content of their own in a statement about somebody."""

CHANGE = words(
    "switched switching moved raised raising increased increasing lowered lowering reduced reducing cut cutting changed"
    " changing updated upgraded upgrading downgraded renamed rescheduled postponed extended delayed pushed rebooked"
    " migrated migrating replaced replacing swapped promoted transferred relocated bumped revised adjusted rose risen"
    " grew fell dropped turned jumped climbed shortened expanded doubled halved brought forward shifted transitioned"
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
bike: bicycle bicycles bikes cycling
commute: commutes commuting commuted
meeting: meets meet meetings call
buy: buys buying bought purchase purchased purchases
birthplace: hometown
big: large
begin: commence
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
read: reads reading
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

_PHRASES = [
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
]
PHRASES = [(re.compile(pattern), replacement) for pattern, replacement in _PHRASES]
