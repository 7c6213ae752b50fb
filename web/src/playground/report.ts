// The report of a run, as docs/report.md describes it: the fields that the playground shows.

/** Results of an entity. */
export interface Measured {
  delivered_ppm: number;
  releases: number;
  misses: number;
  unfinished_late: number;
  wakeups: number;
  wakeup_p50_ns: number;
  wakeup_p99_ns: number;
  wakeup_max_ns: number;
}

export interface Entity extends Measured {
  name: string;
  /** Absent with one host. */
  host?: string;
}

export interface Run {
  policy: string;
  scenario: string;
  total: Measured;
  entities: Entity[];
  guests?: { name: string; entities: Entity[] }[];
}

/** A row of the table: an entity under each policy; `undefined` where the entity did not arrive. */
export interface Row {
  name: string;
  cells: (Measured | undefined)[];
}

/** Returns the rows of several runs: the entities of the hosts, the tasks of the guests (`vm/task`), and all together. */
export function rows(runs: Run[]): Row[] {
  const all = new Map<string, Row>();
  runs.forEach((run, at) => {
    const tasks = (run.guests ?? []).flatMap((guest) =>
      guest.entities.map((task) => ({ ...task, name: `${guest.name}/${task.name}` })),
    );
    const entities = run.entities.map((entity) => {
      const name = entity.host === undefined ? entity.name : `${entity.host}: ${entity.name}`;
      return { ...entity, name };
    });
    for (const entity of [...entities, ...tasks, { ...run.total, name: "all entities" }]) {
      const row = all.get(entity.name) ?? { name: entity.name, cells: runs.map(() => undefined) };
      row.cells[at] = entity;
      all.set(entity.name, row);
    }
  });
  return [...all.values()];
}
