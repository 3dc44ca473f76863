# Settings of README.md for the scripts in this directory: lines NAME=VALUE of the file named by HEADRACE_ENV_FILE,
# unless a variable of that name is set. Relative names are resolved against the working directory, then this directory.
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
        HEADRACE_OTHER_CPUS HEADRACE_SECCOMP HEADRACE_LISTENERS_SUBNET HEADRACE_HEALTHY_TIMEOUT
        DEBIAN_MIRROR DEBIAN_SECURITY_MIRROR DEBIAN_SUITE
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
        # Variables of Docker and Compose pass; any other name would be a setting without effect.
        if [[ ! $name =~ ^(DOCKER|COMPOSE)_ && " ${known[*]} " != *" $name "* ]]; then
            echo "$settings, line $line_number: there is no setting $name; there are ${known[*]}" >&2
            exit 1
        fi
        # Same rules as in Compose: quotes around a value are removed, and an unquoted value may be followed by a
        # comment.
        if [[ $value =~ ^\"(.*)\"$ || $value =~ ^\'(.*)\'$ ]]; then
            value=${BASH_REMATCH[1]}
        elif [[ ! $value =~ ^[\"\'] ]]; then
            value=$(sed 's/[[:space:]]\{1,\}#.*$//' <<< "$value")
        fi
        [[ -n ${!name+set} ]] || export "$name=$value"
    done < "$settings"
    # Child processes get all variables from the environment, and may have another working directory.
    unset HEADRACE_ENV_FILE settings known line line_number name value
fi
