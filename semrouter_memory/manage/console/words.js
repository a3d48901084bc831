// What the API's terms are called on the page.

export const TYPES = { semantic: "Fact", procedural: "How-to", episodic: "Episode", reflective: "Reflection" };
export const FORMS = { quote: "Quote", statement: "Statement" };
export const SOURCES = {
  conversation: "Conversation", session: "Summary of a session", reflection: "Reflection", api: "Added through the API", import: "Import",
};

const REASONS = {
  injected: "Memories were added to the request",
  below_threshold: "No memory was relevant enough",
  already_visible: "The conversation shows all that was relevant",
  over_budget: "What was relevant is too long",
  no_memories: "There was nothing to recall",
  greeting: "A greeting needs no memory",
  fact_query: "A question of general knowledge",
  tool_query: "A tool was to answer",
  no_query: "Nothing was asked",
  no_place: "The request had no place for memories",
  timeout: "Recall took too long; the request went on without",
  rewrite_timeout: "Recall took too long; the request went on without",
  store_unavailable: "The memory store could not be reached",
  embedding_failed: "The embedding model failed",
  disabled: "Memory was off for the request",
  paused: "Remembering was paused",
  opted_out: "The client opted out",
};

const ORDERS = {
  not_found: "The message asked to forget something; no memory was surely about it",
  refused: "Everything is not forgotten for one sentence: see Data",
  failed: "The message asked to forget something; not all of it could be forgotten",
};

const VERDICTS = {
  chosen: "Given", below_threshold: "Not relevant enough", forbidden_type: "Of another type than was asked for",
  pinned: "Pinned: always given", filtered: "Left out by the filter", other_session: "Holds in another session", quote_preferred: "Its quote is given instead", outdated: "Outdated",
  over_limit: "Beyond the number of memories", duplicate: "A given memory says the same", visible: "The conversation shows it",
  over_budget: "Beyond the size of the block", deleted: "Forgotten", deadline: "Out of time", undecided: "Not decided",
};

const STATES = { waiting: "Waiting", extracted: "Learned from", empty: "Nothing to learn", dead: "Dead letter", incomplete: "Incomplete" };

const spelled = (word) => word.charAt(0).toUpperCase() + word.slice(1).replaceAll("_", " ");
const from = (table) => (word) => (Object.hasOwn(table, word) ? table[word] : spelled(word));

export const typeOf = from(TYPES);
export const formOf = from(FORMS);
export const sourceOf = from(SOURCES);
export const reasonOf = from(REASONS);
const outcomeOf = from(ORDERS);
export const verdictOf = from(VERDICTS);
export const stateOf = from(STATES);
export const term = spelled;

export function many(count, one, several = `${one}s`) {
  return `${count.toLocaleString()} ${count === 1 ? one : several}`;
}

/** What became of an order that the message gave. */
export function orderOf({ steering, forgotten }) {
  return steering === "forgotten" ? `As the message asked, ${many(forgotten.length, "memory was", "memories were")} forgotten` : outcomeOf(steering);
}

/** "user:alice" -> "alice"; others keep their kind. */
export function ownerName(owner) {
  return owner.startsWith("user:") ? owner.slice("user:".length) : owner;
}
