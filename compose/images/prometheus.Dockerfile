# Prometheus from Debian packages. Built from compose/images.
ARG BASE=headrace-base:trixie
FROM ${BASE}
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends prometheus > /dev/null \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /usr/bin/promtool \
    && groupadd --gid 10001 headrace && useradd --uid 10001 --gid headrace --no-create-home --shell /usr/sbin/nologin headrace \
    && install -d -o headrace -g headrace -m 0700 /var/lib/metrics
COPY bin/prometheus-health /usr/local/bin/
USER headrace
WORKDIR /var/lib/metrics
CMD ["prometheus", "--config.file=/etc/prometheus/headrace.yml", "--web.config.file=/run/keys/web.yml", \
    "--web.listen-address=0.0.0.0:9090", "--storage.tsdb.path=/var/lib/metrics", "--storage.tsdb.retention.size=1GB"]
