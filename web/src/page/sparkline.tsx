// The waits and the misses of a VM in the last minute.

import { useEffect, useRef } from "preact/hooks";
import { type Sample, samples } from "./store";

const SECONDS = 60;
const HEIGHT = 18;
const WIDTH = 120;

function draw(canvas: HTMLCanvasElement, all: readonly Sample[]): void {
  const scale = devicePixelRatio;
  const pen = canvas.getContext("2d");
  if (!pen) return;
  canvas.width = WIDTH * scale;
  canvas.height = HEIGHT * scale;
  pen.scale(scale, scale);
  const style = getComputedStyle(canvas);
  const step = WIDTH / SECONDS;
  const highest = Math.max(0.1, ...all.map((sample) => sample.waited));
  all.forEach((sample, at) => {
    const left = WIDTH - (all.length - at) * step;
    pen.fillStyle = style.getPropertyValue("--wait");
    const height = (sample.waited / highest) * (HEIGHT - 2);
    pen.fillRect(left, HEIGHT - height, step - 0.5, height);
    if (sample.missed > 0) {
      pen.fillStyle = style.getPropertyValue("--bad");
      pen.fillRect(left, 0, step - 0.5, 4);
    }
  });
}

export function Sparkline({ id }: { id: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const isVisible = useRef(false);
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const redraw = () => isVisible.current && draw(element, samples.peek().get(id) ?? []);
    // Rows outside the window are not drawn.
    const watcher = new IntersectionObserver((entries) => {
      isVisible.current = entries.some((entry) => entry.isIntersecting);
      redraw();
    });
    watcher.observe(element);
    let last: readonly Sample[] | undefined;
    const stop = samples.subscribe((all) => {
      if (all.get(id) !== last) {
        last = all.get(id);
        requestAnimationFrame(redraw);
      }
    });
    return () => {
      watcher.disconnect();
      stop();
    };
  }, [id]);
  const all = samples.value.get(id) ?? [];
  const missed = all.reduce((sum, sample) => sum + sample.missed, 0);
  return <canvas ref={canvas} class="sparkline" role="img" aria-label={`${missed} missed periods in the last minute`} />;
}
