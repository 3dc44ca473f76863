# HAProxy from Debian packages, without any part of Headrace. Built from compose/images.
ARG BASE=headrace-base:trixie
FROM ${BASE}
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends haproxy > /dev/null \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
    && groupadd --gid 10001 headrace && useradd --uid 10001 --gid headrace --no-create-home --shell /usr/sbin/nologin headrace
COPY bin/headrace-health /usr/local/bin/
USER headrace
CMD ["haproxy", "-W", "-db", "-f", "/etc/haproxy/haproxy.cfg"]
