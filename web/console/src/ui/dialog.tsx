/** Dialogs based on the native element, which traps the focus, closes with Escape and restores the focus. */

import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ErrorNotice } from "./notices.tsx";

interface DialogProps {
  title: string;
  onClose: () => void;
  isWide?: boolean;
  children: ComponentChildren;
}

export function Dialog({ title, onClose, isWide = false, children }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const isGone = useRef(false);
  const titleId = useId();
  // Layout effect: the next key press must go to the dialog.
  useLayoutEffect(() => {
    const dialog = element.current;
    const opener = document.activeElement;
    dialog?.showModal();
    return () => {
      isGone.current = true;
      // Focus can only return to the page after the dialog has closed.
      dialog?.close();
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
    };
  }, []);
  const cancel = (event: Event) => {
    // The browser would close the dialog before the page knows, and a key press in between would be lost.
    event.preventDefault();
    onClose();
  };
  const closed = () => {
    // The browser fires the event later, when another dialog may be open.
    if (!isGone.current) onClose();
  };
  return (
    <dialog
      ref={element}
      class={isWide ? "wide" : ""}
      aria-labelledby={titleId}
      onCancel={cancel}
      onClose={closed}
    >
      <div class="dialog-head">
        <h2 id={titleId}>{title}</h2>
      </div>
      {children}
    </dialog>
  );
}

interface FormDialogProps {
  title: string;
  /** Label of the confirmation button. */
  action: string;
  isDangerous?: boolean;
  isWide?: boolean;
  onClose: () => void;
  /** Action. The dialog closes after success, and shows the error otherwise. */
  onSubmit: () => Promise<void>;
  children: ComponentChildren;
}

export function FormDialog(props: FormDialogProps) {
  const [error, setError] = useState<Error | null>(null);
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await props.onSubmit();
      props.onClose();
    } catch (failure) {
      setError(failure as Error);
      setBusy(false);
    }
  };
  return (
    <Dialog title={props.title} onClose={props.onClose} isWide={props.isWide ?? false}>
      <form class="dialog-body" onSubmit={submit}>
        {props.children}
        {error && <ErrorNotice error={error} />}
        <div class="dialog-foot">
          <button type="button" class="button" onClick={props.onClose}>
            Cancel
          </button>
          <button
            type="submit"
            class={`button ${props.isDangerous ? "danger" : "primary"}`}
            disabled={isBusy}
          >
            {props.action}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

interface ConfirmProps {
  title: string;
  action: string;
  /** Text that the user must type to confirm an irreversible action, if given. */
  name?: string;
  onClose: () => void;
  onConfirm: () => Promise<void>;
  children: ComponentChildren;
}

export function Confirm({ title, action, name, onClose, onConfirm, children }: ConfirmProps) {
  const [typed, setTyped] = useState("");
  const id = useId();
  const submit = async () => {
    if (name !== undefined && typed !== name) throw new Error(`Type “${name}” to go on.`);
    await onConfirm();
  };
  return (
    <FormDialog title={title} action={action} isDangerous onClose={onClose} onSubmit={submit}>
      <div class="form">{children}</div>
      {name !== undefined && (
        <div class="field">
          <label for={id}>
            Type <code>{name}</code> to confirm
          </label>
          <input id={id} value={typed} autocomplete="off" onInput={(e) => setTyped(e.currentTarget.value)} />
        </div>
      )}
    </FormDialog>
  );
}
