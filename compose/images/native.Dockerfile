# Wheel of the native module, in /wheels, for the image of the services. Built from the root of the repository.
#
# Slow steps are in layers that rarely change: first the dependencies, from the manifests alone, then the module.

ARG BASE=headrace-base:trixie

# ---- build tools: Debian's Rust, Python and a C compiler; uv in the version that the repository uses
FROM ${BASE} AS tools
WORKDIR /src
COPY .ci/uv.txt ./
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        ca-certificates cargo-web gcc libc6-dev python3 python3-venv > /dev/null \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
    && python3 -m venv /opt/uv \
    && SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
        /opt/uv/bin/pip install --quiet --no-cache-dir --disable-pip-version-check --require-hashes --requirement uv.txt
ENV PATH=/opt/uv/bin:/usr/local/bin:/usr/bin:/bin \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    UV_LINK_MODE=copy UV_NO_CACHE=1 UV_PYTHON=/usr/bin/python3 UV_PYTHON_DOWNLOADS=never

FROM tools AS manifests
COPY core core
RUN find core -type f ! -name '*.rs' ! -name 'Cargo.*' ! -name pyproject.toml ! -path 'core/python/*' -delete \
    && find core -name '*.rs' ! -name lib.rs ! -name main.rs ! -path '*/src/bin/*' ! -path '*/benches/*' -delete \
    && echo 'fn main() {}' | tee $(find core -name '*.rs') > /dev/null \
    && find core -name lib.rs -exec truncate --size 0 {} +

FROM tools AS native
COPY pyproject.toml uv.lock ./
RUN uv export --quiet --frozen --only-group native --output-file native.txt \
    && uv venv --quiet /opt/maturin && uv pip install --quiet --require-hashes --python /opt/maturin/bin/python -r native.txt
ENV CARGO_HOME=/opt/cargo CARGO_TARGET_DIR=/target CARGO_PROFILE_RELEASE_DEBUG=false \
    MATURIN="/opt/maturin/bin/maturin build --quiet --release --locked --compatibility linux --interpreter /usr/bin/python3"
COPY --from=manifests /src/core core
RUN cd core/python && $MATURIN --out unused 2> log || { cat log; exit 1; }; \
    rm -rf unused log
COPY core core
COPY proto proto
# The files have the timestamps of the checkout, and cargo rebuilds by timestamp.
RUN /opt/maturin/bin/python -B proto/generate.py && find core proto -type f -exec touch {} + \
    && cd core/python && $MATURIN --out /wheels

# ---- result
FROM scratch
COPY --from=native /wheels /wheels
