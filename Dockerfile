# The image holds the static binary, the certificate authorities and nothing else. `make image` sets the arguments.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
COPY client/go.mod client/go.sum ./client/
RUN go mod download
COPY . .
ARG VERSION=dev
ARG REVISION=unknown
ARG CREATED=unknown
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION} -X main.commit=${REVISION} -X main.built=${CREATED}" -o /out/bridge ./cmd/bridge \
 && mkdir -p /out/var/lib/bridge /out/tmp && chown -R 65532:65532 /out/var/lib/bridge /out/tmp

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/bridge /bridge
COPY --from=build --chown=65532:65532 /out/var/lib/bridge /var/lib/bridge
COPY --from=build --chown=65532:65532 /out/tmp /tmp
USER 65532:65532
ENV BRIDGE_HTTP_ADDR=:8080 \
    BRIDGE_CHECKPOINT_URL=file:///var/lib/bridge/bridge.db
VOLUME /var/lib/bridge
EXPOSE 8080
# Alive, not ready: a container is not to be restarted because the bus is away.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s CMD ["/bridge", "health"]
ENTRYPOINT ["/bridge"]
CMD ["run"]
# Last, so that a new commit changes no other layer. SOURCE is the address of the repository.
ARG VERSION=dev
ARG REVISION=unknown
ARG CREATED=unknown
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="bridge" \
      org.opencontainers.image.description="Tails SQL tables and publishes their rows as events to Apache Kafka or NATS JetStream" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.source="${SOURCE}"
