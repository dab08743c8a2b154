#!/bin/sh
# Writes a zone file in which a name leads to the servers that answer a relay, and among them to the nearest.
#
#   baton relay distances -o json | zone.sh ZONE NAMESERVER NAME PORT > zone.new
#
# ZONE, NAMESERVER and NAME end with a dot or are relative to the zone. Those
# servers of that port are taken that are at most a fifth further away than the
# nearest, and 2 ms: name servers give several addresses in any order. When no
# server answers nothing is written and the status is 1, so that the zone that
# there is stays in force. Needs jq.
set -eu
zone=$1 nameserver=$2 name=$3 port=$4
servers=$(jq -r --arg port "$port" '
	[.destinations[] | select(.fixed and .rtt_ns and (.server | endswith(":" + $port))) |
		{rtt: .rtt_ns, address: (.server | rtrimstr(":" + $port) | ltrimstr("[") | rtrimstr("]"))}] |
	(map(.rtt) | min) as $least | map(select(.rtt <= $least * 1.2 + 2e6)) | sort_by(.rtt)[] | .address
')
[ -n "$servers" ] || {
	echo "zone.sh: no server of port $port answers" >&2
	exit 1
}
cat <<END
\$ORIGIN $zone
\$TTL 30
@ SOA $nameserver hostmaster $(date +%s) 60 30 86400 30
@ NS $nameserver
END
for a in $servers; do
	case $a in
	*:*) echo "$name AAAA $a" ;;
	*) echo "$name A $a" ;;
	esac
done
