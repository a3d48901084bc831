// The API, asked as its clients ask it: relative to this page, with the operator's token where one was given.

const TOKEN = "semrouter-memory.token";
const OWNER = "semrouter-memory.owner";

export const session = {
  owner: sessionStorage.getItem(OWNER), // whose memories are shown: "user:alice"
  operator: false,
  token: sessionStorage.getItem(TOKEN),
};

export class ApiError extends Error {
  constructor(status, { message, code } = {}) {
    super(message ?? withoutWords(status));
    this.status = status;
    this.code = code ?? "";
  }
}

/** For an answer that is not the API's own, but of a proxy in front of it. */
function withoutWords(status) {
  // A page to sign in may come as a success.
  if (status < 400 || status === 401 || status === 403) return `You are not signed in, or not any more (${status}). Reload the page to sign in.`;
  return status >= 500 ? `The memory does not answer now (${status}). Try again in a moment.` : `The server answered ${status}.`;
}

/** Keeps what an operator gave for this tab; it is gone when the tab is closed. */
export function keep({ token = session.token, owner = session.owner }) {
  Object.assign(session, { token, owner });
  for (const [name, value] of [[TOKEN, token], [OWNER, owner]]) {
    if (value) sessionStorage.setItem(name, value);
    else sessionStorage.removeItem(name);
  }
}

/** The answer's JSON. `query` values may be lists; empty ones are left out. `owned`: of the owner that is shown. */
export async function api(method, path, { query = {}, body, owned = true } = {}) {
  const answer = await request(method, path, { query, body, owned });
  const told = parsed(await answer.text());
  if (told === null) throw new ApiError(answer.status);
  return told;
}

/** The lines of an export. */
export async function download(path, query) {
  const answer = await request("GET", path, { query, owned: true });
  if (!answer.headers.get("content-type")?.startsWith("application/x-ndjson")) throw new ApiError(answer.status);
  return answer.blob();
}

/** Sends a file and reports the share that was sent, 0 to 1. Only XMLHttpRequest tells. */
export function upload(path, file, onProgress) {
  return new Promise((resolve, reject) => {
    const sending = new XMLHttpRequest();
    sending.open("POST", address(path, {}, true));
    for (const [name, value] of Object.entries(credentials())) sending.setRequestHeader(name, value);
    sending.setRequestHeader("content-type", "application/x-ndjson");
    sending.upload.onprogress = (event) => event.lengthComputable && onProgress(event.loaded / event.total);
    sending.onerror = () => reject(unreachable());
    sending.onload = () => {
      const answer = parsed(sending.responseText);
      if (sending.status === 200 && answer) resolve(answer);
      else reject(new ApiError(sending.status, answer?.error));
    };
    sending.send(file);
  });
}

async function request(method, path, { query = {}, body, owned = true }) {
  const headers = credentials();
  if (body !== undefined) headers["content-type"] = "application/json";
  let answer;
  try {
    answer = await fetch(address(path, query, owned), {
      method, headers, body: body === undefined ? undefined : JSON.stringify(body), redirect: "error",
    });
  } catch {
    throw unreachable();
  }
  if (!answer.ok) throw new ApiError(answer.status, parsed(await answer.text())?.error);
  return answer;
}

function address(path, query, owned) {
  const url = new URL(`..${path}`, location.href);
  url.hash = "";
  for (const [name, value] of Object.entries(query)) {
    for (const each of [value].flat()) if (each !== "" && each !== null && each !== undefined) url.searchParams.append(name, each);
  }
  if (owned && session.owner) url.searchParams.set("owner", session.owner);
  return url;
}

function credentials() {
  return session.token ? { authorization: `Bearer ${session.token}` } : {};
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function unreachable() {
  return new ApiError(0, { message: "The server cannot be reached. Is the connection up, and are you still signed in?", code: "unreachable" });
}
