// The state of the playground in the hash of its address: compressed, or in words for links of the book.

import * as scenarios from "./scenarios";

/** The part of a run that the timelines show: the first instant, and the instant behind the last. Unit: ns. */
export type Range = [number, number];

/** What a visitor chooses. */
export interface Inputs {
  /** The scenario of the repository from which the text comes. */
  scenario: string;
  text: string;
  /** The policies, one run each; empty: the policy of the scenario. */
  policies: string[];
  /** Changed knobs: `POLICY.NAME` to the value as text. */
  knobs: Record<string, string>;
  /** Seed and length as text; empty: those of the scenario. */
  seed: string;
  length: string;
  /** `null`: the most informative part. */
  range: Range | null;
}

const FIRST = "demo";

/** The inputs of a visitor without a link. */
export function first(scenario = FIRST): Inputs {
  const name = scenarios.names.includes(scenario) ? scenario : FIRST;
  const text = scenarios.text(name);
  return { scenario: name, text, policies: ["cfs", "credit", "edf"], knobs: {}, seed: "", length: "", range: null };
}

async function piped(bytes: Uint8Array<ArrayBuffer>, through: GenericTransformStream): Promise<Uint8Array<ArrayBuffer>> {
  const stream = new Blob([bytes]).stream().pipeThrough(through as ReadableWritablePair<Uint8Array, Uint8Array>);
  return new Uint8Array(await new Response(stream as ReadableStream<Uint8Array<ArrayBuffer>>).arrayBuffer());
}

/** Returns the hash of the address for these inputs, with `#`. */
export async function toHash(inputs: Inputs): Promise<string> {
  const { text, ...others } = inputs;
  const kept = text === scenarios.text(inputs.scenario) ? others : inputs;
  const packed = await piped(new TextEncoder().encode(JSON.stringify(kept)), new CompressionStream("deflate-raw"));
  const base64 = btoa(Array.from(packed, (byte) => String.fromCharCode(byte)).join(""));
  return `#s=${base64.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")}`;
}

/**
 * Returns the inputs of a hash: `#s=…` of `toHash`, or `#scenario=NAME&policies=A,B`. Returns `undefined` for another
 * hash.
 */
export async function fromHash(hash: string): Promise<Inputs | undefined> {
  const words = new URLSearchParams(hash.replace(/^#/, ""));
  const packed = words.get("s");
  if (packed !== null) {
    return unpacked(packed);
  }
  const [scenario, policies] = [words.get("scenario"), words.get("policies")];
  if (scenario === null && policies === null) {
    return undefined;
  }
  const inputs = first(scenario ?? FIRST);
  return policies === null ? inputs : { ...inputs, policies: policies.split(",").filter(Boolean) };
}

async function unpacked(packed: string): Promise<Inputs | undefined> {
  try {
    const binary = atob(packed.replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(binary, (letter) => letter.charCodeAt(0));
    const json = new TextDecoder().decode(await piped(bytes, new DecompressionStream("deflate-raw")));
    return checked(JSON.parse(json) as Partial<Record<keyof Inputs, unknown>>);
  } catch {
    // A link that was cut off is no link.
    return undefined;
  }
}

/** Takes the fields that have the right types. */
function checked(given: Partial<Record<keyof Inputs, unknown>>): Inputs {
  const word = (value: unknown, otherwise: string) => (typeof value === "string" ? value : otherwise);
  const inputs = first(word(given.scenario, FIRST));
  const { policies, knobs, range } = given;
  const isRange = Array.isArray(range) && range.length === 2 && range.every((at) => Number.isSafeInteger(at) && at >= 0);
  const pairs = Object.entries(typeof knobs === "object" && knobs !== null ? knobs : {});
  return {
    ...inputs,
    text: word(given.text, inputs.text),
    policies: Array.isArray(policies) ? policies.filter((name) => typeof name === "string") : inputs.policies,
    knobs: Object.fromEntries(pairs.filter(([, value]) => typeof value === "string")),
    seed: word(given.seed, ""),
    length: word(given.length, ""),
    range: isRange ? (range as Range) : null,
  };
}
