// Requests that follow an input: the latest input wins, and one request is under way at a time.

export interface Pacing {
  /** Waits for further input. Unit: ms. */
  pause: number;
  /** Minimum time between the starts of two requests. Unit: ms. */
  interval: number;
}

/** Returns a function that runs `work` for the latest call, after the pause. */
export function latestOnly(work: () => Promise<void>, { pause, interval }: Pacing): () => void {
  let [isWanted, isRunning, timer, last] = [false, false, 0 as unknown as ReturnType<typeof setTimeout>, 0];
  const run = async () => {
    if (isRunning || !isWanted) return;
    [isWanted, isRunning, last] = [false, true, Date.now()];
    try {
      await work();
    } finally {
      isRunning = false;
      if (isWanted) plan();
    }
  };
  const plan = () => {
    clearTimeout(timer);
    timer = setTimeout(() => void run(), Math.max(pause, last + interval - Date.now()));
  };
  return () => {
    isWanted = true;
    if (!isRunning) plan();
  };
}
