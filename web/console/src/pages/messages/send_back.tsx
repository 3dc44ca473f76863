import type { Message } from "@headrace/client";
import { sendBack } from "../../api/letters.ts";
import type { Origin } from "../../message_text.ts";
import { FormDialog } from "../../ui/dialog.tsx";
import { toast } from "../../ui/notices.tsx";

interface SendBackProps {
  message: Message;
  origin: Origin;
  onClose: () => void;
}

/** Confirmation before a dead letter goes back. */
export function SendBack({ message, origin, onClose }: SendBackProps) {
  const { stream, topic } = origin;
  const submit = async () => {
    await sendBack(message, origin);
    toast(`The message was sent back to ${topic}.`);
  };
  return (
    <FormDialog title={`Send back to ${topic}`} action="Send back" onClose={onClose} onSubmit={submit}>
      <p>
        The payload, the key and the own headers of message {message.offset} of partition{" "}
        {message.partitionId} are sent to the topic <strong>{topic}</strong> of the stream{" "}
        <strong>{stream}</strong>.
      </p>
      <p class="quiet">
        The letter stays here: <code>headrace connect redrive</code> would send it as well.
      </p>
    </FormDialog>
  );
}
