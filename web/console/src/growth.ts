/** Rates of counts that were sampled at irregular times. */

/** Between samples that are closer, a rate is mostly noise: of equal counts it is 0, whatever the load is. */
const APART_SECONDS_MIN = 1;

/**
 * Growth per second up to each sample, since the newest sample that is at least a second older; null if there is none
 * within the gap. A decreasing count, after a deletion or a restart of the server, is no growth.
 */
export function growth<Sample extends { at: number }>(
  samples: readonly Sample[],
  of: (sample: Sample) => number,
  gapSeconds: number,
): (number | null)[] {
  return samples.map((sample, index) => {
    let before = index - 1;
    while (before >= 0 && sample.at - (samples[before] as Sample).at < APART_SECONDS_MIN) before -= 1;
    const earlier = samples[before];
    if (earlier === undefined || sample.at - earlier.at > gapSeconds) return null;
    return Math.max(0, of(sample) - of(earlier)) / (sample.at - earlier.at);
  });
}
