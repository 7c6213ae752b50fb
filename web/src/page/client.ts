// Requests to the service.

import type { Desired, Problem, Vm } from "./api";

/** A refused request. */
export class Refusal extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
  }
}

/** Pauses before a change is repeated whose reply was lost. The idempotency key keeps it from being made twice. Unit: ms. */
const PAUSES = [200, 500, 1000, 2000];
/** The reply of a service without a path. */
const NO_PATH = "there is no such path";

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await answered(await fetch(path, signal ? { signal } : {}))).json() as Promise<T>;
}

/** Returns `undefined` if the service is of a version without the path. */
export async function getIfKnown<T>(path: string, signal?: AbortSignal): Promise<T | undefined> {
  try {
    return await get<T>(path, signal);
  } catch (error) {
    if (error instanceof Refusal && error.problem.status === 404 && error.problem.detail === NO_PATH) return undefined;
    throw error;
  }
}

/** Returns a reply that is no refusal. */
export async function answered(reply: Response): Promise<Response> {
  if (reply.ok) return reply;
  const text = await reply.text();
  try {
    throw new Refusal(JSON.parse(text) as Problem);
  } catch (error) {
    if (error instanceof Refusal) throw error;
    throw new Refusal({ title: reply.statusText, status: reply.status, detail: `the service replied ${reply.status}` });
  }
}

export interface Change {
  id: string;
  /** `undefined`: any. */
  generation: number | undefined;
  desired: Desired;
  reason?: string;
}

/** Sets the desired state of a VM, and returns the VM. */
export async function put(change: Change): Promise<Vm> {
  const key = newKey();
  for (const pause of [...PAUSES, undefined]) {
    try {
      return await send(change, "", { "Idempotency-Key": key });
    } catch (error) {
      if (error instanceof Refusal || pause === undefined) throw error;
      await new Promise((done) => setTimeout(done, pause));
    }
  }
  throw new Error("not reached: the last attempt returns or throws");
}

/** Returns the VM as it would be after `put`. */
export function dryRun(change: Change, signal: AbortSignal): Promise<Vm> {
  return send(change, "?dry-run=true", {}, signal);
}

async function send(
  { id, generation, desired, reason }: Change,
  query: string,
  headers: Record<string, string>,
  signal?: AbortSignal,
): Promise<Vm> {
  const all: Record<string, string> = { ...headers, "Content-Type": "application/json" };
  if (generation !== undefined) all["If-Match"] = `"${generation}"`;
  if (reason) all["Tactus-Reason"] = encodeURIComponent(reason);
  // An empty state is a DELETE: a VM that carries a promise then has it again.
  const isEmpty = !desired.promise && desired.weight === undefined && desired.cap_percent === undefined;
  const [method, body] = isEmpty && !desired.paused ? ["DELETE", null] : ["PUT", JSON.stringify(desired)];
  const path = `/v1/vms/${encodeURIComponent(id)}/desired${query}`;
  const reply = await fetch(path, { method, headers: all, body, ...(signal ? { signal } : {}) });
  return (await answered(reply)).json() as Promise<Vm>;
}

function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(16).padStart(8, "0")).join("");
}

/** Returns a failure as a problem, for its place on the page. */
export function problemOf(error: unknown): Problem {
  if (error instanceof Refusal) return error.problem;
  const detail = `the service cannot be reached: ${error instanceof Error ? error.message : String(error)}`;
  return { title: "Unreachable", status: 0, detail, remedy: "wait until the page is connected again" };
}
