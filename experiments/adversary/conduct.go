package adversary

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"baton/experiments/adversary/script"
)

// later is the delay of a surrogate's late unsolicited bytes.
const later = 30 * time.Millisecond

// misbehave does what the adversary's request demands, and reports whether the connection continues.
func (e *exchange) misbehave(conduct script.Conduct, r *http.Request) bool {
	good := e.headText(r, 5) + "good\n"
	say := func(text string) bool { _, err := io.WriteString(e.c, text); return err == nil }
	switch conduct {
	case script.Closes:
		return false
	case script.Resets:
		_ = e.c.SetLinger(0)
		return false
	case script.Half:
		say(good[:len(good)-3])
		return false
	case script.Garbage:
		say("\x00\x01 this is no HTTP at all \r\n\r\n")
		return false
	case script.Early:
		say(good)
		_, err := io.Copy(io.Discard, r.Body)
		return err == nil
	case script.Surplus:
		return say(good + e.stolen())
	case script.SurplusLater:
		say(good)
		time.Sleep(later)
		return say(e.stolen())
	case script.Twice:
		return say(good + good)
	case script.Informs:
		return say(strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 12) + good)
	case script.Switches:
		e.bind(r, "101")
		return say("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: what\r\n\r\n")
	case script.NTLM, script.Negotiates:
		e.bind(r, "an offer of "+string(conduct))
		scheme := map[script.Conduct]string{script.NTLM: "NTLM", script.Negotiates: "Negotiate"}[conduct]
		return say(fmt.Sprintf("HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: %s\r\nContent-Length: 0\r\n\r\n", scheme))
	case script.Unsolicited:
		say(good)
		time.Sleep(later)
		say("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		return false
	}
	if slices.Contains(script.Malformed, conduct) {
		e.bind(r, "a malformed answer: "+string(conduct))
	}
	return say(malformed(conduct))
}

// bind marks the connection as bound to its client.
func (e *exchange) bind(r *http.Request, why string) {
	e.bound, e.why = r.Header.Get(script.SessionField), why
}

// stolen is a complete unsolicited response.
func (e *exchange) stolen() string {
	return "HTTP/1.1 200 OK\r\n" + script.TokenField + ": " + script.EvilMark + "surplus\r\nContent-Length: 6\r\n\r\nstolen"
}

// malformed are ambiguous responses.
func malformed(conduct script.Conduct) string {
	const chunked = "Transfer-Encoding: chunked\r\n"
	switch conduct {
	case script.OldChunked:
		return "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n" + chunked + "\r\n2\r\nok\r\n0\r\n\r\n"
	case script.BlankField:
		return "HTTP/1.1 200 OK\r\nX Blank: 1\r\nContent-Length: 2\r\n\r\nok"
	case script.ChunkSize:
		return "HTTP/1.1 200 OK\r\n" + chunked + "\r\n2 xyz\r\nok\r\n0\r\n\r\n"
	case script.TwoLengths:
		return "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok"
	case script.LengthChunked:
		return "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + chunked + "\r\n2\r\nok\r\n0\r\n\r\n"
	case script.BareLF:
		return "HTTP/1.1 200 OK\nContent-Length: 2\n\nok"
	case script.Folded:
		return "HTTP/1.1 200 OK\r\nContent-Length:\r\n 2\r\n\r\nok"
	}
	return "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok" // SignedLength
}
