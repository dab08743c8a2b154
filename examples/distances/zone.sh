#!/bin/sh
# Writes a zone file that maps a name to the nearest of the servers that answer a relay.
#
#   baton relay distances -o json | zone.sh ZONE NAMESERVER NAME PORT > zone.new
#
# ZONE, NAMESERVER and NAME end with a dot or are relative to the zone. Selects
# the servers on PORT whose distance is at most 1.2 times that of the nearest
# plus 2 ms, as name servers return several addresses in any order. If no server
# answers, it writes nothing and exits with status 1, so that the existing zone
# stays in force. Needs jq.
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
