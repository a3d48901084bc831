"""English words that the grammar needs: relations, verbs, and what makes a statement passing or anchored."""

import re

from semrouter_memory.retain.wordlist import words

FEMALE = words(
    "mother mom mum mama mommy mummy sister daughter wife girlfriend aunt auntie grandmother grandma granny nan niece"
    " stepmother stepsister stepdaughter godmother mother-in-law sister-in-law daughter-in-law ex-wife fiancee fiancée"
    " landlady granddaughter girl missus"
)
MALE = words(
    "father dad papa daddy brother son husband boyfriend uncle grandfather grandpa granddad nephew stepfather"
    " stepbrother stepson godfather father-in-law brother-in-law son-in-law ex-husband fiance fiancé grandson boy lad"
)
RELATIONS = (
    FEMALE
    | MALE
    | words(
        "parent parents kid kids child children baby twin twins sibling siblings cousin spouse partner friend friends"
        " roommate flatmate neighbour neighbor boss manager colleague coworker co-worker team teammate doctor doc"
        " dentist therapist gp teacher tutor coach trainer landlord lawyer accountant dog cat puppy kitten horse"
        " rabbit parrot hamster pet pets dogs cats family grandparents grandkids in-laws physio vet supervisor advisor professor mentor nanny babysitter cleaner mechanic hairdresser"
        " client clients customer ex buddy bestie mate tenant intern bf gf hubby stepdad stepmum nurse neurologist cardiologist surgeon oncologist"
        " daughters sons sisters brothers nieces nephews cousins uncles aunts goldfish tortoise budgie pony chickens hens horses puppies kittens"
    )
)
"""People and animals a user speaks of as "my ..."; what they do is worth remembering as the user's world."""

REPORTERS = words(
    "doctor doc gp doctors nurse surgeon cardiologist dermatologist allergist dietitian psychiatrist midwife paediatrician pediatrician dentist therapist physio vet teacher lawyer accountant"
)
"""People whose "told me I have ..." is a fact about the user."""

TRADE = words("shoot film photograph repair sell order deal paint sew mend design translate edit mix record")
"""Verbs of a craft that with "mostly" tell of the user."""

STATIVE = words(
    "live work prefer like love hate dislike enjoy adore avoid own use drive speak study play teach eat drink smoke"
    " commute volunteer cycle swim earn weigh wear collect grow breed suffer manage lead belong practise practice"
    " raise train pay rent bake coach reside support follow attend detest sing dance garden knit paint"
    " sleep code program deploy ship host maintain mentor foster"
)
"""Verbs whose simple present says how things are."""

HABITUAL = words(
    "run cook travel fly take keep go walk ride get wake read watch write listen meet visit save start finish call meditate spend"
    " do make buy see"
)
"""Verbs whose simple present says it only with a sign of habit, a place or a time."""

EVENT_PAST = words(
    "moved married adopted graduated grew retired quit divorced emigrated immigrated relocated converted"
)
"""Past events that change a life: remembered as they are."""

LIFE_PAST = EVENT_PAST | words(
    "bought adopted joined quit switched enrolled broke sprained injured tore inherited retired stopped started left"
    " booked rented signed passed failed lost won gave sold founded launched got finished hired registered signed-up"
    " ordered planted built renovated published"
)
"""Past events that change how things are: remembered with whatever they name."""

PAST = EVENT_PAST | words(
    "was were had went got bought made ran took saw left found lost won met became began broke chose came did drove ate"
    " flew gave kept paid sold sent slept spent taught wore built caught hurt cut put signed started stopped finished"
    " booked switched joined passed failed cancelled canceled visited worked lived studied learned learnt used planted"
    " completed ordered earned saved turned gained founded opened closed published wrote trained completed born"
    " reserved scheduled injured sprained tore rented registered enrolled applied accepted received inherited raised"
    " set hired invested swam climbed hiked rode played drew spoke fell threw stole sang led lent shot laid knit sewed told brought stood"
)
"""Past tense forms; only with a place, a name, a number or a date are they worth remembering."""

THIRD = words(
    "is are was were has have lives live works work costs cost ends starts begins departs leaves arrives runs uses weighs"
    " plays likes loves hates prefers studies teaches speaks goes go expires renews pays earns measures turns comes"
    " drives eats needs opens closes meets moved does doesn't don't can can't cannot isn't aren't hasn't gets owns"
    " gives makes wants keeps reads writes sits stands lies faces hurts aches itches charges ships sells buys grows freezes leaks barks sleeps"
    "     snores fits holds contains includes lacks supports requires pulls turns suffers takes wears drinks smokes attends enjoys allows covers died"
)
"""Finite verbs that may follow "my ..."."""

THIRD_ALONE = words("snores smokes drinks drives stutters limps sleepwalks cooks paints sings knits bites barks")
"""Verbs that say how somebody is without anything behind them."""

WILL = words("will won't")

SAYING = words(
    "says say said told tells thinks think thought asked asks sent wrote believes suggested"
    " recommends recommended swears claims insists"
)
"""What others say or think is not the user's statement."""

NO_TOPIC = words(
    "question questions problem problems issue issues point guess code script function output error errors query"
    " understanding opinion idea ideas bad apologies mistake text essay prompt message request file files df dataframe"
    " test tests build endpoint answer thought thoughts assumption concern advice suggestion sentence paragraph regex"
    " input data result results loop class method bug program god gosh goodness word words turn internet wifi"
    " container browser screen otp pin password first next last last_message draft email mail letter attempt"
)
"""Heads of "my ..." that belong to the conversation or to the task at hand."""

PASSING = words(
    "sorry sure back done here there glad happy afraid wondering thinking trying looking asking fine good ok okay"
    " hungry starving tired exhausted sleepy bored sad angry upset mad stuck lost confused ready worried nervous excited"
    " curious certain aware serious kidding joking able unable grateful thankful impressed surprised shocked"
    " disappointed late early busy free cold hot warm drunk sick ill thirsty stressed anxious annoyed frustrated"
    " interested going about just not so too very all really pretty quite kind sort like getting having feeling being"
    " using doing seeing writing hoping guessing assuming saying talking telling calling gonna new with doomed screwed"
    " dying freezing melting alone home off on up down out in right wrong correct awake alive fascinated amazed"
    " pleased convinced positive game fed getting done-for proud embarrassed ashamed jealous scared relieved speechless"
)
"""After "I am": how it is just now, or politeness."""

LASTING = words(
    "vegetarian vegan pescatarian gluten-free lactose-intolerant lactose allergic diabetic pregnant married single"
    " divorced engaged retired unemployed self-employed freelance colour-blind color-blind colourblind colorblind"
    " left-handed right-handed dyslexic deaf blind asthmatic coeliac celiac autistic bilingual fluent responsible born"
    " named called based used intolerant anaemic anemic epileptic hypertensive teetotal sober widowed separated"
    " nearsighted shortsighted short-sighted farsighted neurodivergent trans gay lesbian bisexual queer straight"
    " introverted extroverted disabled overweight underweight catholic protestant muslim jewish hindu buddhist atheist"
    " christian tall originally kosher halal dairy-free insured certified qualified trilingual nonbinary non-binary"
)
"""After "I am": what stays so."""

DEGREE = (
    r"(?:(?:very|quite|rather|super|fairly|somewhat|pretty|highly|also|both|a (?:bit|little|tad)"
    r"|(?!(?:possib|probab|hopeful|supposed|apparent|alleged|technical|practical|ironical|theoretical|hard|bare|near|basical|virtual|potential|like|literal|on|fami|al)ly\b)[a-z]{2,}ly)\s)+"
)
"""Before what stays so: how much, or how, it does ("severely allergic", "newly married"); nothing that takes it back."""

UNDER_WAY = words(
    "planning learning studying training working moving living dating expecting saving organising organizing building"
    " renovating recovering raising teaching preparing hosting running flying travelling traveling visiting restoring"
    " launching hiring migrating retiring majoring volunteering managing leading attending starting switching"
    " commuting staying booking driving taking getting"
)
"""Progressive forms that tell of weeks rather than minutes."""

DOING = words(
    "renting buying using writing planting brewing sewing building restoring growing restoring knitting training running cooking baking sailing"
    " hitchhiking camping swimming quitting struggling dealing celebrating marrying adopting selling fostering applying"
    " interviewing presenting speaking driving cycling coming leaving arriving returning flying meeting"
)
"""Progressive forms that, without a subject, tell of the user when they name something."""

INCOMPLETE = words("budget limit deposit deadline team meeting price")
"""Heads of "my ..." that say nothing without what they belong to."""

PLANNED = words(
    "learn visit buy move become travel lose run retire study live start build go quit adopt sell finish open marry"
    " renovate teach join apply climb hike train pass publish launch migrate switch save cycle read take"
)
"""Verbs of plans that outlive a conversation."""

MOMENTARY = words(
    "think guess see know understand mean suppose believe wonder feel hope try ask tell say assume remember forget agree"
    " hear find appreciate thank apologise apologize bet doubt swear promise wish look run get click press type execute"
    " compile import open call receive notice realise realize recall imagine expect claim argue admit want need would"
    " could should might may can will shall must do did does was am were is are had has make keep let got suggest"
    " recommend propose refuse accept cannot copy paste select enter submit choose pick go come give put set add change"
    " replace remove delete install update check test debug print return define declare create write read start stop"
    " begin end finish show use sit stand wait sound seem appear figure reckon deserve care dare bother sigh cry laugh"
    " wake step turn walk throw break fall leave lose win miss die explain describe compare consider beg demand require"
    " pass move solve translate calculate compute convert divide multiply subtract roll attack cast draw shoot grab"
    " and or but not to the a an of in on at as with for from by if that this it then than too all both who which"
    " self myself alone"
)
"""After "I": what is done or felt just now, and what is no verb. Anything else in the simple present says how things are."""

CANNOT = words(
    "eat drink stand swim drive tolerate afford hear ride cook digest smoke sleep speak read tell take bear lift"
    " walk run kneel hike jump bend travel fly leave work attend come swallow chew climb type see sit commute park have"
)
"""After "I cannot": inability or aversion rather than trouble with the task at hand."""

_MONTHS = (
    "january|february|march|april|may|june|july|august|september|october|november|december"
    "|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
)
_WEEKDAYS = "(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
MONTH = rf"(?:{_MONTHS})"
WEEKDAY = _WEEKDAYS
ANCHOR = re.compile(
    rf"\d|\b(?:(?:in|of|by|until|since|on|end|early|late|mid)\s(?:{_MONTHS})|{_WEEKDAYS}|noon|midnight|birthday"
    r"|(?:next|last|this|every|each)\s(?:week|month|year|spring|summer|autumn|fall|winter|weekend)"
    r"|one|two|three|four|five|six|seven|eight|nine|ten|dozen|hundred|thousand|million)\b",
    re.IGNORECASE,
)
DAY = re.compile(rf"\b(?:(?:by|in|on|until|since|from|next|this)\s(?:{_MONTHS})|{_WEEKDAYS})\b", re.IGNORECASE)
NAME = re.compile(r"(?<=[\s(])(?!(?:I|I'\w+|OK|Ok|LOL)\b)[A-ZÀ-ÖØ-Þ][\w'’.&-]+")
"""A capitalised word that does not begin the text: a name."""
HABIT = re.compile(
    r"\b(?:every|daily|weekly|monthly|usually|always|each|never|once|twice|times|per|regularly|often|mostly|only|(?:on|with|at) my"
    r"|mornings?|evenings?|nights?|weekends?|easily)\b",
    re.IGNORECASE,
)

AMOUNT = re.compile(
    r"[€$£¥]\s?\d|\d[\d.,]*\s?(?:k\b|[€$£¥]|(?:kilos?|kgs?|pounds?|lbs|km|kilomet(?:er|re)s|miles|euros?|dollars?|bucks|pesos|francs|crowns|kronor|yen|rupees|years?|months?)\b)",
    re.IGNORECASE,
)
"""So much of something that belongs to a life rather than to a program."""
OFTEN = re.compile(
    r"\b(?:(?:every|each)\s(?:\d+\s|other\s|single\s|second\s)?(?:mornings?|evenings?|afternoons?|nights?|days?|weeks?|weekends?|months?|years?|summers?|winters?|(?:mon|tues|wednes|thurs|fri|satur|sun)day)"
    r"|(?:once|twice|\w+ times)\s(?:an?|per|every)\s(?:day|week|month|year)|daily)\b",
    re.IGNORECASE,
)
"""Said of a habit, whatever the verb is."""

LEAD = re.compile(
    r"^(?:(?:ok(?:ay)?|oh|ah|uh|um|hm+|ha(?:ha)*|well|hey|hi|hello|so|and|but|also|yes|yeah|yep|nope|no(?=\s*[,.;:!–—]|\s+(?:I|i|my|we|it|sorry)\b)|right|fine|great|perfect|good"
    r"|cool|nice|sure|thanks(?: a lot)?|thank you|thx|btw|by the way|fyi|actually|anyway|anyways|unfortunately|sadly|luckily|fortunately"
    r"|plus|then|now|lol|ugh|wow|hmm|look|listen|see|basically|honestly|just so you know|for context|context|background"
    r"|because|since|although|though|while|as you know|in case it helps|for your information|for reference|personally"
    r"|swap|sorry|wait|hold on|real talk|stop(?=\s*[,.!])|end game|works|fixed|noted|quick note|little background|some background|first|oops|please note(?: that)?|weird"
    r"|about me|as (?:i|I) (?:said|told you|mentioned)(?: before| earlier| above)?|like (?:i|I) said|again|still|oh|k|tbh|well|ps|p\.s\.|edit|update|reminder|for context|heads up|mind you|fun fact|one more thing|another thing|to be honest|to be clear|these days|nowadays|currently|at the moment|for now|right now|at present|for the moment|so far|meanwhile|in the meantime)"
    r"(?:\s*[,:;.!–—-]+\s*|\s+))+",
    re.IGNORECASE,
)
TAIL = re.compile(
    r"(?:[\s,]+(?:btw|by the way|tbh|to be honest|unfortunately|sadly|already|ok|okay|right|anyway|lol|lmao|haha+|though|tho|please|pls|plz|ugh|thanks|thx|fyi|too|as well|actually|at least"
    r"|you know|if that helps|if it helps|if it matters|just so you know|xd|:\)|:-\)|;\)|:\(|:d))+\W*$|[\s.;,!…:]+$",
    re.IGNORECASE,
)
LAUGHTER = re.compile(r"\b(?:lol|lmao|rofl|haha+|hehe+)\b|😂|🤣|😜|😉", re.IGNORECASE)
JOKE = re.compile(
    r"\b(?:jk|just kidding|kidding|in my dreams|not really|as if|yeah right|obviously not|i wish)\b|\s/s\b|^(?:sure|yeah|oh yes|right|of course|oh great|oh wonderful|great)\s*,.*\b(?:lol|haha+|lmao)\b",
    re.IGNORECASE,
)
"""Words that mark a sentence as no statement at all."""
GRANDIOSE = re.compile(
    r"\b(?:(?:m|b|tr|z)illion\w*|kings?|queens?|emperors?|princess\w*|castles?|yachts?|palaces?|president|pope|gods?|goddess|genius|superhero\w*|batman|superman|spider-?man|wizard|vampire|alien|unicorns?|dragons?"
    r"|immortal|famous|celebrity|hundred (?:cars|cats|wives|kids)|time travel\w*|mars|the moon)\b",
    re.IGNORECASE,
)
"""What people claim laughing."""


def anchored(text: str) -> bool:
    """Whether a date, number, weekday or name ties a statement to the world."""
    return bool(ANCHOR.search(text) or NAME.search(" " + text))
