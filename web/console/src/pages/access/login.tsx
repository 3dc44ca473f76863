import { useState } from "preact/hooks";
import { logIn, logInWithToken } from "../../api/request.ts";
import mark from "../../mark.svg";
import { endedBecause } from "../../session.ts";
import { TextField } from "../../ui/fields.tsx";
import { ErrorNotice } from "../../ui/notices.tsx";

export function Login() {
  const [withToken, setWithToken] = useState(false);
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const [token, setToken] = useState("");
  const [error, setError] = useState<Error | null>(null);
  const [isBusy, setBusy] = useState(false);
  const reason = endedBecause();

  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await (withToken ? logInWithToken(token.trim()) : logIn(username, password));
    } catch (failure) {
      setError(failure as Error);
      setBusy(false);
    }
  };

  return (
    <main class="login">
      <div class="card">
        <h1 class="brand">
          <img src={mark} alt="" />
          Headrace
        </h1>
        {reason && !error && (
          <div class="notice warn" role="alert">
            {reason}
          </div>
        )}
        <form class="form" onSubmit={submit}>
          {withToken ? (
            <TextField
              key="token"
              label="Access token"
              type="password"
              value={token}
              onValue={setToken}
              required
              isFirst
            />
          ) : (
            <>
              <TextField
                label="User name"
                value={username}
                onValue={setUsername}
                autocomplete="username"
                required
                isFirst
              />
              <TextField
                label="Password"
                type="password"
                value={password}
                onValue={setPassword}
                autocomplete="current-password"
                required
              />
            </>
          )}
          {error && <ErrorNotice error={error} />}
          <button type="submit" class="button primary" disabled={isBusy}>
            Log in
          </button>
          <button type="button" class="button" onClick={() => setWithToken(!withToken)}>
            {withToken ? "Use a password instead" : "Use an access token instead"}
          </button>
        </form>
      </div>
    </main>
  );
}
