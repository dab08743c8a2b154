// Package headtest makes heads of requests on which parsers may differ: what clients send, borderline pieces of the
// grammar, and changes of single bytes.
package headtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Longest is the most bytes of a head: beyond what the kernel program reads, and within what a test run of it takes.
const Longest = 2300

var (
	methods    = []string{"GET", "GET", "GET", "GET", "HEAD", "POST", "PUT", "DELETE"}
	oddMethods = []string{"OPTIONS", "PATCH", "CONNECT", "get", "GETT", "G", "GET\t", " GET", "GE(T",
		"", "DELETE ", "PRI", strings.Repeat("M", 33)}

	paths = []string{"", "a", "b", "b/", "video/", "index.html", "%41", "%c3%a4", ";x=1", "..",
		"a//b", "~", "$!\"'()*+,:=@&", "b%2fc", "\xc3\xa4", "|{}^`<>\\"}
	queries  = []string{"?", "?a=b&c=%20d", "?b", "?a?b", "?%41", "?[]"}
	oddPaths = []string{"#", "a#b", "%", "%4", "%zz", "%%41", "%4g", "100%", " ", "a b", "\t", "\x7f",
		"\x00", "\r", "\n", "?%", "?%zz", "?a b", " HTTP/1.0", strings.Repeat("!", 600),
		strings.Repeat("x", 1030), strings.Repeat("x", 120)}
	oddForms = []string{"*", "a", "http://a.example/", "http://b.test./b", "HTTP://A.Example:80/",
		"http://", "http:///", "http://u@a.example/", "https://[2001:db8::9]/b",
		"http://a.example?b", "http://a%41/", "a.example:80", "//a.example/b", "?", "\\", "ftp://a/"}

	versions    = []string{"HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0"}
	oddVersions = []string{"HTTP/1.2", "HTTP/2.0", "HTTP/0.9", "http/1.1", "HTTP/1.1 ", " HTTP/1.1",
		"HTTP/1.0 HTTP/1.1", "HTTP/1.10", "HTTP/1", "HTTP/1.x", "", "HTTP/11.1", "HTTP/1.1\t"}

	hosts = []string{"a.example", "b.test", "a.example.", "A.EXAMPLE", "b.test:80", "B.Test.:8080",
		"other.example", "under_score.test", "10.9.9.9", "10.9.9.9:80",
		"[2001:db8::9]", "[2001:DB8::9]:80", "[::]", "[1:2:3:4:5:6:7:8]", "xn--bcher-kva.example", "localhost", "a", ""}
	oddHosts = []string{"b.test:80@evil", "a@b.test", "a,b", "a b", "a/b", "a?b", "a#b", "h:x",
		"h:99999", "h:65535", "h:65536", "h:080", "h:000080", "h:", ":80", "h:8 0", "h::80", "a..", "a..b",
		".",
		".a.example", "..", "%68", "a%2e", "\xe4", "h\x7f", "a\tb", "a.example ", " a.example",
		"\ta.example", "a!$&'()*+;=~b", "[::1", "::1", "[::1]x", "[::1]:x", "[:::]", "[1::2::3]", "[:1]",
		"[1:]",
		"[12345::]", "[fe80::1%25eth0]", "[fe80::1%eth0]", "[::ffff:1.2.3.4]", "[1.2.3.4]", "[]", "[v1.a]",
		"[1:2:3:4:5:6:7::]", "[::1:2:3:4:5:6:7:8]", "[1:2:3:4:5:6:7]", "[1:2]", "[g::]",
		"a\\b", "a\"b", "<a>", "http://a.example", "a;b", strings.Repeat("h", 62) + ".",
		strings.Repeat("h", 63), strings.Repeat("h", 63) + ".", strings.Repeat("h", 64),
		strings.Repeat("h", 255), strings.Repeat("h", 256), strings.Repeat("h", 255) + ":80",
		strings.Repeat("h.", 128), "a.example\r\n b"}

	fields = []string{"User-Agent: curl/8.14.1", "Accept: */*", "Accept-Encoding: gzip, deflate, br",
		"Accept-Language: en-US,en;q=0.5", "Connection: keep-alive", "Connection: close",
		"connection:Close", "Cookie: a=b; c=\"d\"", "X-B3-TraceId: 0af7651916cd43dd8448eb211c80319c",
		"Upgrade-Insecure-Requests: 1", "Content-Length: 0", "Content-Type: text/plain",
		"Expect: 100-continue", "Authorization: Basic YTpi", "api_key: x",
		"If-None-Match: W/\"6920474e-80\"", "Referer: http://a.example/#top", "X-Empty:", "X-Tab:\ta\tb",
		"X-Latin: \xe4\xf6", "v1.2: x"}
	oddFields = []string{"Content-Length: 5, 5", "Content-Length: +5", "Content-Length:  5",
		"Content-Length: 5 ", "Content-Length:\t5", "Content-Length: 123456789012345",
		"Content-Length: 1234567890123456",
		"Content-Length: 9223372036854775808", "Content-Length:", "Content-Length: 0x5",
		"Content-Length:            000000000005", "Content-Length:          000000000000005",
		"Content-Lengthy: 5",
		"Content-Length : 5", "Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked",
		"Transfer-Encoding: x", "Transfer-Encoding : chunked", "Transfer-Encodings: x",
		"Transfer_Encoding: chunked",
		"Connection: keep-alive, Upgrade", "Connection: close ", "Connection:  close", "Connection:",
		"Connection : close", "Upgrade: websocket", "Upgrade : x", "Expect: x", "Expect:",
		"Expect:  100-Continue",
		"Expect:100-CONTINUE", "Expect: 100-continue, x", "Expect: 100-continue ", "Expected: x",
		"Trailer: Content-Length", "X : a", "X\t: a", " X: a", "\tX: a", "X", ": a", "X(: a", "X\": a",
		"X/y: a", "X@y: a",
		"X[: a", "X{: a", "X!#$%&'*+^`|~: a", "X\x7f: a", "X\xe4: a", "X: \x7f", "X: a\x00", "X: a\x01b",
		"X: a\rb", "X: a\nb", "X: a\r\n b", "X: a\r\n\tb", "Host", "Host : a.example", "Host: a.example",
		"host:b.test", "hOST: ", "HOST:b.test:81", "Hosts: a", "Host-X: a", "NTLM: x",
		"Authorization: NTLM x", "Proxy-Authorization: Negotiate x", "\r", "X-Forwarded-For: 1.2.3.4",
		"x-up: 1",
		strings.Repeat("n", 55) + ": x", strings.Repeat("n", 63) + ": x", strings.Repeat("n", 64) + ": x",
		strings.Repeat("n", 65) + ": x", strings.Repeat("n", 7) + ":x", strings.Repeat("n", 8) + ":x",
		strings.Repeat("n", 15) + ":x", strings.Repeat("n", 16) + ":x", "nnnnnnn_:x", "X: " + strings.Repeat("v", 1900)}

	oddBytes = "\x00\x01\b\t\n\v\r\x1f !\"#%&'()*+,-./:;<=>?@[\\]^_`{|}~\x7f\x80\xa0\xff"
)

// Next makes one head, most often whole, at most Longest bytes long.
func Next(random *rand.Rand) []byte {
	lines := []string{requestLine(random)}
	if random.IntN(40) > 0 {
		lines = append(lines, hostField(random))
	}
	for range random.IntN(6) {
		lines = append(lines, pickPiece(random, 20, fields, oddFields))
	}
	if random.IntN(40) == 0 { // about as many as are allowed
		for i := range 95 + random.IntN(10) {
			lines = append(lines, fmt.Sprintf("F%d: v", i))
		}
	}
	rest := lines[1:]
	random.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	if random.IntN(60) == 0 {
		lines = slices.Insert(lines, 0, "") // RFC 9112, 2.2
	}
	b := []byte(strings.Join(lines, "\r\n") + "\r\n\r\n")
	if random.IntN(20) == 0 && len(b) < Longest-260 { // about as long as the kernel program reads
		b = slices.Insert(b, len(b)-2, []byte("Pad: "+strings.Repeat("p", max(0, 2048-len(b)-10+random.IntN(7)))+"\r\n")...)
	}
	for random.IntN(6) == 0 {
		b = changeByte(random, b)
	}
	return b[:min(len(b), Longest)]
}

// pickPiece takes a piece, of odd ones once in a while.
func pickPiece(random *rand.Rand, seldom int, usual, odd []string) string {
	if random.IntN(seldom) == 0 {
		return odd[random.IntN(len(odd))]
	}
	return usual[random.IntN(len(usual))]
}

func requestLine(random *rand.Rand) string {
	target := "/"
	for range random.IntN(4) {
		target += pickPiece(random, 20, paths, oddPaths)
	}
	if random.IntN(4) == 0 {
		target += pickPiece(random, 12, queries, oddPaths)
	}
	if random.IntN(25) == 0 {
		target = oddForms[random.IntN(len(oddForms))]
	}
	return pickPiece(random, 25, methods, oddMethods) + " " + target + " " + pickPiece(random, 30, versions, oddVersions)
}

func hostField(random *rand.Rand) string {
	usual, odd := []string{"Host: ", "Host: ", "Host: ", "host:", "HOST: "}, []string{"Host:  ", "Host:\t", "Host : ", "Host:   "}
	return pickPiece(random, 20, usual, odd) + pickPiece(random, 8, hosts, oddHosts)
}

// changeByte has one byte more, less or another.
func changeByte(random *rand.Rand, b []byte) []byte {
	if len(b) == 0 {
		return b
	}
	at, c := random.IntN(len(b)), byte(random.IntN(256))
	if random.IntN(3) > 0 {
		c = oddBytes[random.IntN(len(oddBytes))]
	}
	switch random.IntN(3) {
	case 0:
		return slices.Insert(b, at, c)
	case 1:
		return slices.Delete(b, at, at+1)
	}
	b[at] = c
	return b
}
