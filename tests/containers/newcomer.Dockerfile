# The machine of someone who has just heard of Headrace: Debian, Python, and nothing that compiles. Built by test_newcomer.py.
ARG BASE=headrace-base:trixie

FROM ${BASE} AS machine
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3 python3-venv > /dev/null \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
    && useradd --create-home newcomer

# ---- what a package index would send: the dependencies in the locked versions, as wheels only
FROM machine AS wheelhouse
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends ca-certificates > /dev/null
COPY locked.txt /tmp/locked.txt
RUN python3 -m venv /tmp/pip \
    && SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt /tmp/pip/bin/pip download --quiet --no-cache-dir --no-deps --require-hashes \
        --disable-pip-version-check --only-binary :all: --dest /wheelhouse --requirement /tmp/locked.txt

FROM machine
COPY --from=wheelhouse /wheelhouse /wheelhouse
USER newcomer
WORKDIR /home/newcomer
