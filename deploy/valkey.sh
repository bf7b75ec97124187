#!/bin/sh
# Starts what compose.cluster.yaml runs of Valkey: `valkey.sh server`, `valkey.sh sentinel`; `valkey.sh check`
# is the health check of both.
#
#   PRIMARY   ADDRESS PORT of the server to begin as a replica of, or to watch; without it a server is the primary
#   PORT      where it listens; 6379, or 26379 for a Sentinel
#   DATA      its folder; /data
#   MEMORY    how much of it the entries of a server may take; 1gb
#
# VALKEY_PASSWORD is that of nodes with calls or pages, VALKEY_PROXY_PASSWORD that of proxy nodes, and
# VALKEY_ADMIN_PASSWORD that of the servers among themselves.
# Both programs rewrite their file when roles change, so one that is there is kept.
set -eu
umask 077
data=${DATA:-/data}
file=$data/valkey-$1.conf
admin=${VALKEY_ADMIN_PASSWORD:?is not set}
password=${VALKEY_PASSWORD:?is not set}
proxy_password=${VALKEY_PROXY_PASSWORD:?is not set}

write_server() {
  cat <<END
port $PORT
dir $data
appendonly yes
save ""
maxmemory ${MEMORY:-1gb}
maxmemory-policy noeviction
requirepass $admin
masterauth $admin
user taximeter-proxy on >$proxy_password resetchannels %W~taximeter:log:* ~taximeter:limit:* ~taximeter:proof %R~taximeter:directory %R~taximeter:directory:version %R~taximeter:budgets %R~taximeter:erasures ~taximeter:erasures:nodes +info +ping +xadd +hget +hgetall +hset +get +incrby +evalsha +script|load +time +lindex +lpush +ltrim +pexpire
user taximeter on >$password resetchannels ~taximeter:log:* ~taximeter:copies ~taximeter:nodes ~taximeter:buckets:* ~taximeter:moves ~taximeter:moves:* ~taximeter:budgets:nodes ~taximeter:erasures:nodes %R~taximeter:erasures %R~taximeter:directory %R~taximeter:directory:version %R~taximeter:statements:key +info +ping +xreadgroup +xack +xautoclaim +xgroup|create +xinfo|groups +xinfo|consumers +xpending +xtrim +hget +hgetall +hset +hdel +get +set +evalsha +script|load ~taximeter:directory ~taximeter:directory:version ~taximeter:statements:key ~taximeter:budgets %R~taximeter:budgets:nodes ~taximeter:erasures ~taximeter:erasures:nodes ~taximeter:nodes ~taximeter:buckets:* ~taximeter:moves ~taximeter:moves:said %R~taximeter:copies +info +ping +multi +exec +hget +hgetall +hset +hdel +get +set +incrby +xinfo|groups +xinfo|consumers +evalsha +script|load
${PRIMARY:+replicaof $PRIMARY}
END
}

write_sentinel() {
  cat <<END
port $PORT
dir $data
protected-mode no
sentinel monitor main $PRIMARY 2
sentinel auth-pass main $admin
sentinel down-after-milliseconds main 2000
sentinel failover-timeout main 10000
END
}

case $1 in
server) PORT=${PORT:-6379} ;;
sentinel) PORT=${PORT:-26379} ;;
check)
  if [ -e "$data/valkey-sentinel.conf" ]; then
    valkey-cli -p "${PORT:-26379}" ping
  else
    VALKEYCLI_AUTH=$admin REDISCLI_AUTH=$admin valkey-cli -p "${PORT:-6379}" ping
  fi | grep -qx PONG
  exit
  ;;
esac
[ -e "$file" ] || { "write_$1" >"$file.new" && mv "$file.new" "$file"; }
case $1 in
server) exec valkey-server "$file" ;;
sentinel) exec valkey-server "$file" --sentinel ;;
esac
