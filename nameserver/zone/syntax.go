package zone

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// spoken is a mistake as the parser puts it (miekg/dns, scan.go): what, and the word in quotes where it stopped.
var spoken = regexp.MustCompile(`^(.*?): (".*")$`)

// written is how records are written, by type.
var written = map[string]string{
	"A":     "www A 192.0.2.1",
	"AAAA":  "www AAAA 2001:db8::1",
	"CAA":   `@ CAA 0 issue "ca.example"`,
	"CNAME": "www CNAME other",
	"DS":    "child DS 12345 13 2 DIGEST",
	"HTTPS": "@ HTTPS 1 . alpn=h2",
	"MX":    "@ MX 10 mail",
	"NS":    "@ NS ns1",
	"PTR":   "1 PTR host.example.com.",
	"SOA":   "@ SOA ns1 hostmaster 1 7200 3600 1209600 300",
	"SRV":   "_https._tcp SRV 0 5 443 www",
	"SVCB":  "@ SVCB 1 other",
	"TXT":   `@ TXT "text"`,
}

// directives are how the parser complains about them, and how they are written.
var directives = map[string]string{
	"expecting $TTL value, not this...":     "$TTL 3600",
	"expecting $ORIGIN value, not this...":  "$ORIGIN example.com.",
	"expecting $INCLUDE value, not this...": "$INCLUDE more.zone",
}

// said is what the parser says, in words that tell what to write instead.
func said(text string) string {
	m := spoken.FindStringSubmatch(text)
	if m == nil {
		return text
	}
	what := m[1]
	word, err := strconv.Unquote(m[2])
	if err != nil {
		return text
	}
	if kind, _, ok := strings.Cut(strings.TrimPrefix(what, "bad "), " "); ok && written[kind] != "" && strings.HasPrefix(what, "bad ") {
		if strings.TrimSpace(word) == "" {
			return fmt.Sprintf("the data of this %s record is incomplete (write: %s)", kind, written[kind])
		}
		return fmt.Sprintf("%q is wrong in the data of a record of type %s (write: %s)", word, kind, written[kind])
	}
	if example := directives[what]; example != "" {
		return fmt.Sprintf("%q is no value of %s (write: %s)", word, strings.Fields(example)[0], example)
	}
	switch {
	case strings.HasPrefix(what, "expecting RR type"), what == "not a TTL":
		return fmt.Sprintf("%q is neither a type of record nor a time to live (write: name, time to live, type, data, as in www 3600 A 192.0.2.1)", word)
	case what == "missing TTL with no previous value":
		return "the record has no time to live, and there is none above it (write $TTL 3600 at the top of the file)"
	case what == "garbage after rdata":
		return fmt.Sprintf("%q comes after the end of the record's data (remove it, or put the data in quotes)", word)
	}
	return text
}
