package script

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Data is a kind of payload.
type Data string

// MostSize bounds a body, in bytes.
const MostSize = 60_000

// The fields of the lab's requests. Token identifies a request, Session its client's connection, Conduct what the surrogate
// should do instead of a valid response.
const (
	TokenField   = "X-Token"
	SessionField = "X-Session"
	ConductField = "X-Conduct"
)

// EvilMark starts the tokens of the adversary's requests, InnocentMark all others: neither may appear in the other's place.
const (
	EvilMark     = "evil-"
	InnocentMark = "innocent-"
)

// Denied is a path without a route.
const Denied = "/denied/"

// Conduct is what a surrogate does instead of a valid response.
type Conduct string

// The conducts.
const (
	Closes        Conduct = "closes"
	Resets        Conduct = "resets"
	Half          Conduct = "half"    // a part of the response, then the end
	Garbage       Conduct = "garbage" // something else than HTTP, then the end
	OldChunked    Conduct = "old-chunked"
	BlankField    Conduct = "blank-field"
	ChunkSize     Conduct = "chunk-size"
	TwoLengths    Conduct = "two-lengths"
	LengthChunked Conduct = "length-and-chunked"
	BareLF        Conduct = "bare-lf"
	Folded        Conduct = "folded"
	SignedLength  Conduct = "signed-length"
	Surplus       Conduct = "surplus"       // another response after the right one
	SurplusLater  Conduct = "surplus-later" // the same some time after
	Twice         Conduct = "twice"         // the same response again
	Informs       Conduct = "informs"       // many 1xx before
	Switches      Conduct = "switches"      // 101 unsolicited
	NTLM          Conduct = "ntlm"          // 401 that offers NTLM
	Negotiates    Conduct = "negotiates"    // the same with Negotiate
	Early         Conduct = "early"         // a response before the body is read
	Unsolicited   Conduct = "unsolicited"   // a valid response, and 408 some time later
)

// Malformed conducts are ambiguous responses. Odd ones are old forms that a parser may accept (RFC 9112, 2.2 and 5.2).
var (
	Malformed = []Conduct{OldChunked, BlankField, ChunkSize, TwoLengths, LengthChunked, SignedLength}
	Odd       = []Conduct{BareLF, Folded}
)

// Bound conducts bind the connection to its client.
var Bound = []Conduct{NTLM, Negotiates}

// OfInnocents are the conducts allowed to surrogates of the innocents' pools: they close the connection, or make it unfit for
// reuse, so that it is the router's fault if another client gets it.
var OfInnocents = slices.Concat([]Conduct{Closes, Resets, Half, Garbage, Early}, Malformed, Odd, Bound)

// Conducts are all of them.
var Conducts = slices.Concat(OfInnocents, []Conduct{Surplus, SurplusLater, Twice, Informs, Switches, Unsolicited})

// Paths. The first part selects the pool.
const (
	toA   = "/a/echo/"
	toB   = "/b/echo/"
	toOdd = "/x/echo/"
	sinkA = "/a/sink/"
	upA   = "/u/a/echo/"
)

// get is a request without a body.
func get(path, token string, fields ...string) string {
	return request("GET", path, token, "", fields...)
}

func request(method, path, token, body string, fields ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s%s HTTP/1.1\r\nHost: cdn.test\r\n%s: %s\r\n%s: %s\r\nCookie: token=%s\r\n", method, path, token,
		TokenField, token, SessionField, token, token)
	for _, f := range fields {
		b.WriteString(f + "\r\n")
	}
	b.WriteString("\r\n" + body)
	return b.String()
}

func withLength(n int) string { return fmt.Sprintf("Content-Length: %d", n) }

// kinds make the payloads; size is Step.Size.
var kinds = map[Data]func(token string, size int) string{
	"get a":      func(t string, _ int) string { return get(toA, t) },
	"get b":      func(t string, _ int) string { return get(toB, t) },
	"get odd":    func(t string, _ int) string { return get(toOdd, t) },
	"get up":     func(t string, _ int) string { return get(upA, t) },
	"get denied": func(t string, _ int) string { return get(Denied, t) },
	"head a":     func(t string, _ int) string { return request("HEAD", toA, t, "") },
	"get file":   func(t string, _ int) string { return get("/a/file/1m?", t) },
	"post a": func(t string, n int) string {
		return request("POST", sinkA, t, strings.Repeat("e", n), withLength(n))
	},
	"put a": func(t string, n int) string {
		return request("PUT", toA, t, strings.Repeat("e", n), withLength(n))
	},
	"put odd": func(t string, n int) string {
		return request("PUT", toOdd, t, strings.Repeat("e", n), withLength(n))
	},
	"put chunked": func(t string, n int) string {
		return request("PUT", toA, t, fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", n+1, strings.Repeat("e", n+1)), "Transfer-Encoding: chunked")
	},
	"body":             func(_ string, n int) string { return strings.Repeat("e", n) },
	"byte":             func(string, int) string { return "G" },
	"blank line":       func(string, int) string { return "\r\n" },
	"pipelined":        func(t string, _ int) string { return get(toA, t) + get(toA, t) },
	"pipelined denied": func(t string, _ int) string { return get(toA, t) + get(Denied, t) },
	"pipelined pools":  func(t string, _ int) string { return get(toA, t) + get(toB, t) + get(toOdd, t) },
	"post and denied":  func(t string, _ int) string { return request("POST", sinkA, t, "eeee", withLength(4)) + get(Denied, t) },
	"upgrade":          func(t string, _ int) string { return get(toA, t, "Connection: Upgrade", "Upgrade: websocket") },
	"upgrade, denied": func(t string, _ int) string {
		return get(toA, t, "Connection: Upgrade", "Upgrade: h2c") + get(Denied, t)
	},
	"close":             func(t string, _ int) string { return get(toA, t, "Connection: close") },
	"expect":            func(t string, n int) string { return request("PUT", toA, t, "", withLength(n), "Expect: 100-continue") },
	"ntlm":              func(t string, _ int) string { return get(toA, t, "Authorization: NTLM TlRMTVNTUAABAAAA") },
	"negotiate":         func(t string, _ int) string { return get(toB, t, "Authorization: Negotiate YIIB") },
	"proxy ntlm":        func(t string, _ int) string { return get(toA, t, "Proxy-Authorization: NTLM TlRMTVNTUAABAAAA") },
	"length and chunks": func(t string, _ int) string { return smuggled(t, withLength(4), "Transfer-Encoding: chunked") },
	"chunks and length": func(t string, _ int) string { return smuggled(t, "Transfer-Encoding: chunked", withLength(4)) },
	"two codings": func(t string, _ int) string {
		return smuggled(t, "Transfer-Encoding: chunked", "Transfer-Encoding: identity")
	},
	"odd coding":      func(t string, _ int) string { return smuggled(t, "Transfer-Encoding: xchunked") },
	"coding, tab":     func(t string, _ int) string { return smuggled(t, "Transfer-Encoding:\tchunked", withLength(4)) },
	"coding, blank":   func(t string, _ int) string { return smuggled(t, "Transfer-Encoding : chunked", withLength(4)) },
	"coding, folded":  func(t string, _ int) string { return smuggled(t, "Transfer-Encoding:\r\n chunked", withLength(4)) },
	"two lengths":     func(t string, _ int) string { return smuggled(t, withLength(4), withLength(0)) },
	"length list":     func(t string, _ int) string { return smuggled(t, "Content-Length: 4, 0") },
	"length, sign":    func(t string, _ int) string { return smuggled(t, "Content-Length: +4") },
	"length, huge":    func(t string, _ int) string { return smuggled(t, "Content-Length: 18446744073709551616") },
	"bare CR":         func(t string, _ int) string { return smuggled(t, "X-A: b\rContent-Length: 4") },
	"bare LF":         func(t string, _ int) string { return strings.ReplaceAll(get(toA, t, withLength(0)), "\r\n", "\n") },
	"zero byte":       func(t string, _ int) string { return smuggled(t, "X-A: b\x00c") },
	"two hosts":       func(t string, _ int) string { return smuggled(t, "Host: other.test") },
	"absolute":        func(t string, _ int) string { return get("http://cdn.test"+toA, t) },
	"dots":            func(t string, _ int) string { return get("/a/../denied/", t) },
	"old":             func(t string, _ int) string { return strings.Replace(get(toA, t), "HTTP/1.1", "HTTP/1.0", 1) },
	"version":         func(t string, _ int) string { return strings.Replace(get(toA, t), "HTTP/1.1", "HTTP/1.2", 1) },
	"connect":         func(string, int) string { return "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n" },
	"long head":       func(t string, n int) string { return get(toA, t, "X-Long: "+strings.Repeat("l", n)) },
	"chunk extension": func(t string, _ int) string { return chunked(t, "4;a=\"b\r\nGET\"\r\neeee\r\n0\r\n\r\n") },
	"chunk, blank":    func(t string, _ int) string { return chunked(t, "4 \r\neeee\r\n0\r\n\r\n") },
	"chunk, sign":     func(t string, _ int) string { return chunked(t, "+4\r\neeee\r\n0\r\n\r\n") },
	"chunk, hex":      func(t string, _ int) string { return chunked(t, "0x4\r\neeee\r\n0\r\n\r\n") },
	"chunk, huge":     func(t string, _ int) string { return chunked(t, "10000000000000004\r\neeee\r\n0\r\n\r\n") },
	"chunk, no end":   func(t string, _ int) string { return chunked(t, "4\r\neeeeX\r\n0\r\n\r\n") },
	"chunk, trailer":  func(t string, _ int) string { return chunked(t, "4\r\neeee\r\n0\r\nHost: x\r\n\r\n") },
	"chunk, LF":       func(t string, _ int) string { return chunked(t, "4\neeee\n0\n\n") },
	"TLS": func(string, int) string {
		return "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + strings.Repeat("\x07", 160)
	},
	"HTTP/2": func(string, int) string {
		return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	},
	junk: nil,
}

// junk is random bytes.
const junk Data = "junk"

func init() {
	for _, c := range Conducts {
		kinds[AtOdd(c)] = func(t string, _ int) string { return get(toOdd, t, ConductField+": "+string(c)) }
	}
	for _, c := range OfInnocents {
		kinds[AtA(c)] = func(t string, n int) string {
			return request("POST", sinkA, t, strings.Repeat("e", n), withLength(n), ConductField+": "+string(c))
		}
	}
}

// AtOdd requests a conduct of the adversary's surrogate, AtA of an innocent one.
func AtOdd(c Conduct) Data { return Data("odd " + c) }

// AtA requests a conduct of an innocent surrogate.
func AtA(c Conduct) Data { return Data("a " + c) }

// smuggled is a request whose end two parsers may see in different places; in one reading, another request follows.
func smuggled(token string, fields ...string) string {
	hidden := get(Denied, token)
	return request("POST", toA, token, "0\r\n\r\n"+hidden, fields...)
}

func chunked(token, body string) string {
	return request("POST", toA, token, body+get(Denied, token), "Transfer-Encoding: chunked")
}

func (d Data) known() bool { _, ok := kinds[d]; return ok }

// AllData are the kinds of payload, in order.
func AllData() []Data {
	var all []Data
	for d := range kinds {
		all = append(all, d)
	}
	slices.Sort(all)
	return all
}

// Payload is the step's payload for the request with this token.
func (s Step) Payload(token string, random *rand.Rand) []byte {
	var b []byte
	switch {
	case s.Data == "":
		return nil
	case s.Data == junk:
		for range max(s.Size, 1) {
			b = append(b, byte(random.Uint32()))
		}
	default:
		b = []byte(kinds[s.Data](token, s.Size))
	}
	switch {
	case s.Cut > 0:
		b = b[:min(s.Cut, len(b))]
	case s.Cut < 0:
		b = b[min(-s.Cut, len(b)):]
	}
	return b
}
