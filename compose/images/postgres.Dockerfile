# PostgreSQL from Debian packages. Built from compose/images.
ARG BASE=headrace-base:trixie
FROM ${BASE}
RUN apt-get update -qq \
    # Create no cluster in the image: the database is created in the volume, at the first start.
    && mkdir -p /etc/postgresql-common && echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql > /dev/null \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
    && ln -s /usr/lib/postgresql/* /opt/postgresql \
    && groupadd --gid 10001 headrace && useradd --uid 10001 --gid headrace --no-create-home --shell /usr/sbin/nologin headrace \
    && install -d -o headrace -g headrace -m 0700 /var/lib/database
COPY bin/postgres-start /usr/local/bin/
ENV PATH=/opt/postgresql/bin:/usr/local/bin:/usr/bin:/bin
USER headrace
WORKDIR /var/lib/database
STOPSIGNAL SIGINT
CMD ["postgres-start"]
