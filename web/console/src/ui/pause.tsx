/** Button that pauses what arrives by itself. */

interface PauseButtonProps {
  isPaused: boolean;
  onPaused: (isPaused: boolean) => void;
}

export function PauseButton({ isPaused, onPaused }: PauseButtonProps) {
  return (
    <button type="button" class="button small" aria-pressed={isPaused} onClick={() => onPaused(!isPaused)}>
      {isPaused ? "Go on" : "Pause"}
    </button>
  );
}
