/** Fields for the partition and the position at which messages are read. */

import type { Partition } from "../../api/types.ts";
import { ChoiceField, TextField } from "../../ui/fields.tsx";

export interface ReadingPlace<Begin extends string> {
  /** Id of a partition; empty for all. */
  partition: string;
  begin: Begin | "first" | "offset" | "time";
  /** Offset or local time; empty if the beginning needs neither. */
  value: string;
}

interface PlaceFieldsProps<Begin extends string> {
  partitions: readonly Partition[];
  /** The beginning that only this page has, and its text. */
  own: readonly [Begin, string];
  place: ReadingPlace<Begin>;
  onChange: (part: Partial<ReadingPlace<Begin>>) => void;
}

export function PlaceFields<Begin extends string>({
  partitions,
  own,
  place,
  onChange,
}: PlaceFieldsProps<Begin>) {
  return (
    <>
      <ChoiceField
        label="Partition"
        value={place.partition}
        options={[["", "all"], ...partitions.map(({ id }) => [String(id), String(id)] as const)]}
        onValue={(partition) => onChange({ partition })}
      />
      <ChoiceField<ReadingPlace<Begin>["begin"]>
        label="Begin"
        value={place.begin}
        options={[
          own,
          ["first", "with the first message"],
          ["offset", "at an offset"],
          ["time", "at a time"],
        ]}
        onValue={(begin) => onChange({ begin, value: "" })}
      />
      {place.begin === "offset" && (
        <TextField
          label="Offset"
          type="number"
          min={0}
          value={place.value}
          onValue={(value) => onChange({ value })}
          required
        />
      )}
      {place.begin === "time" && (
        <TextField
          label="Time"
          type="datetime-local"
          step={1}
          value={place.value}
          onValue={(value) => onChange({ value })}
          required
        />
      )}
    </>
  );
}
