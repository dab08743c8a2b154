package route

import (
	"fmt"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"baton/packet/hello"
	"baton/router/config"
)

// candidate is a route that matches, or may match, targets that begin with prefix.
type candidate struct {
	prefix  string
	methods []string // none: all
	pool    int
	rewrite config.Rewrite
	upcall  string // why user space must decide if this is the first; "" if the kernel is sure that it matches
}

// findCandidate converts a route for requests of that host; host "" means all unknown hosts, and the route's is one.
// Not ok if the route cannot match any of them.
func (r *rule) findCandidate(host string) (candidate, bool) {
	m := &r.match
	c := candidate{prefix: m.PathPrefix, methods: m.Methods, pool: r.pool, rewrite: r.rewrite, upcall: r.unaided}
	switch {
	case strings.Contains(m.PathPrefix, "?") || host != "" && !hostHolds(m.Host, []byte(host)):
		return c, false
	case host == "" && m.Host != "":
		c.upcall = fmt.Sprintf("the route on line %d matches host %s", r.line, m.Host)
		if isLookedUp(m.Host) {
			c.upcall += ", for which the kernel's tables have no room"
		}
	}
	if len(m.Headers) > 0 {
		c.upcall = fmt.Sprintf("the route on line %d matches headers", r.line)
	}
	if m.PathRegex != nil {
		c.upcall = fmt.Sprintf("the route on line %d matches by path_regex", r.line)
		literal := anchoredLiteral(m.PathRegex.String())
		switch {
		case strings.HasPrefix(literal, c.prefix):
			c.prefix = literal
		case !strings.HasPrefix(c.prefix, literal):
			return c, false // no path has both prefixes
		}
	}
	if len(c.prefix) > MaxKernelPrefix {
		c.prefix = c.prefix[:MaxKernelPrefix]
		c.upcall = fmt.Sprintf("the route on line %d matches more than %d bytes of the path", r.line, MaxKernelPrefix)
	}
	return c, true
}

// anchoredLiteral returns a prefix of every path that the expression matches; "" if it finds none.
func anchoredLiteral(expression string) string {
	re, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return ""
	}
	re = re.Simplify()
	if re.Op != syntax.OpConcat || len(re.Sub) < 2 || re.Sub[0].Op != syntax.OpBeginText {
		return ""
	}
	literal := re.Sub[1]
	if literal.Op != syntax.OpLiteral || literal.Flags&syntax.FoldCase != 0 {
		return ""
	}
	text := string(literal.Rune)
	// U+FFFD in an expression matches any invalid byte, and a path contains no "?": the rest is unused.
	end := strings.IndexFunc(text, func(r rune) bool { return r == '?' || r >= utf8.RuneSelf })
	if end >= 0 {
		text = text[:end]
	}
	return text
}

// candidateHello converts a route for hellos of that name or wildcard; "" means all unknown names. Not ok if the
// route cannot match any of them. known are the names in the kernel's table.
func (r *rule) candidateHello(name string, known map[string]uint16) (candidate, bool) {
	m := &r.match
	c := candidate{pool: r.pool, upcall: r.unaided}
	_, inTable := known[m.SNI]
	exact := name != "" && name[0] != '*'
	switch {
	case m.NoSNI || len(m.SNI) > MaxKernelHost: // a wildcard matches no shorter names than itself
		return c, false
	case m.SNI == "" || m.SNI == name || exact && hello.Match(m.SNI, name):
	case exact || inTable || name != "" && !hello.Match(name, m.SNI):
		return c, false
	default:
		c.upcall = fmt.Sprintf("the route on line %d matches sni %s, for which the kernel's tables have no room", r.line, m.SNI)
	}
	if len(m.ALPN) > 0 {
		c.upcall = fmt.Sprintf("the route on line %d matches alpn", r.line)
	}
	return c, true
}
