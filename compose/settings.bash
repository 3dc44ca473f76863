# The settings of README.md, for the scripts beside this file: lines NAME=VALUE of the file that HEADRACE_ENV_FILE names,
# unless a variable of that name is set. Relative names are looked for from where one is, then beside this file.
if [[ -n ${HEADRACE_ENV_FILE:-} ]]; then
    settings=$HEADRACE_ENV_FILE
    [[ -f $settings ]] || settings=$(dirname "${BASH_SOURCE[0]}")/$HEADRACE_ENV_FILE
    if [[ ! -f $settings ]]; then
        echo "HEADRACE_ENV_FILE: there is no file $HEADRACE_ENV_FILE" >&2
        exit 1
    fi
    known=(
        HEADRACE_BASE HEADRACE_WHEELS HEADRACE_TAG HEADRACE_PROJECT HEADRACE_LISTEN HEADRACE_ADVERTISED HEADRACE_TCP_PORT
        HEADRACE_WEBSOCKET_PORT HEADRACE_HTTP_PORT HEADRACE_GRPC_PORT HEADRACE_PROMETHEUS_PORT HEADRACE_SERVICE_CPUS
        HEADRACE_OTHER_CPUS HEADRACE_SECCOMP HEADRACE_PATIENCE DEBIAN_MIRROR DEBIAN_SECURITY_MIRROR DEBIAN_SUITE
    )
    line_number=0
    while IFS= read -r line || [[ -n $line ]]; do
        ((++line_number))
        line=${line%$'\r'}
        [[ $line =~ ^[[:space:]]*(#.*)?$ ]] && continue
        if [[ ! $line =~ ^[[:space:]]*([A-Za-z_][A-Za-z0-9_]*)=(.*)$ ]]; then
            echo "$settings, line $line_number: not NAME=VALUE: $line" >&2
            exit 1
        fi
        name=${BASH_REMATCH[1]} value=${BASH_REMATCH[2]}
        # Those of Docker and Compose pass; any other name would be a setting that has no effect.
        if [[ ! $name =~ ^(DOCKER|COMPOSE)_ && " ${known[*]} " != *" $name "* ]]; then
            echo "$settings, line $line_number: there is no setting $name; there are ${known[*]}" >&2
            exit 1
        fi
        # As with Compose: quotes around a value are not part of it, and without them a comment may stand behind a blank.
        if [[ $value =~ ^\"(.*)\"$ || $value =~ ^\'(.*)\'$ ]]; then
            value=${BASH_REMATCH[1]}
        elif [[ ! $value =~ ^[\"\'] ]]; then
            value=$(sed 's/[[:space:]]\{1,\}#.*$//' <<< "$value")
        fi
        [[ -n ${!name+set} ]] || export "$name=$value"
    done < "$settings"
    # Whoever is called has all of it, and may be elsewhere.
    unset HEADRACE_ENV_FILE settings known line line_number name value
fi
