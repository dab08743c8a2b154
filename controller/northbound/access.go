package northbound

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/netip"
	"strings"

	"baton/api"
	"baton/document"
)

// Access says who may call, in which role.
type Access struct {
	Tokens []Token
	// Certificates has the role of clients by a name of their certificate: a DNS name, an address or a URI of its alternative names.
	Certificates map[string]Role
	// Open lets everybody who reaches the listener call everything. It is for loopback, and excludes the others.
	Open bool
}

// Token is a bearer token.
type Token struct {
	Name string // of its owner: for the log
	Role Role
	hash [sha256.Size]byte
}

// NewToken returns the token with a secret.
func NewToken(role Role, secret, name string) Token {
	return Token{Name: name, Role: role, hash: sha256.Sum256([]byte(secret))}
}

const (
	hashPrefix = "sha256:"
	// shortestToken is in characters: 128 bits if they are hexadecimal digits, 96 if they are letters.
	shortestToken = 16
	maxTokenFile  = 1 << 20
	// bearerProtocol and the token in base64url without padding is a subprotocol: browsers cannot set other fields of the
	// handshake, and addresses with a token end in logs and histories.
	bearerProtocol = "bearer."
)

// ReadTokens reads a file of tokens. Each line has a role, a token and a name; the token is sha256:HASH (64 hexadecimal digits) or the
// token itself, if nobody but the owner may read the file. The error has all mistakes, a line each.
func ReadTokens(path string) ([]Token, error) {
	text, mode, err := document.ReadFile(path, maxTokenFile)
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	return parseTokens(path, text, mode)
}

func parseTokens(path string, text []byte, mode fs.FileMode) ([]Token, error) {
	var tokens []Token
	var mistakes []error
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxTokenFile)
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		token, err := parseToken(line, mode)
		for _, other := range tokens {
			if err == nil && other.hash == token.hash {
				err = fmt.Errorf("this is the token of %s already: make another one, openssl rand -hex 32", other.Name)
			}
		}
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("tokens: %s:%d: %w", path, number, err))
			continue
		}
		tokens = append(tokens, token)
	}
	if len(tokens) == 0 && len(mistakes) == 0 {
		mistakes = append(mistakes, fmt.Errorf("tokens: %s has no token: write a line for each: viewer sha256:HASH NAME", path))
	}
	return tokens, errors.Join(mistakes...)
}

// parseToken parses a line. No error has the token in it.
func parseToken(line string, mode fs.FileMode) (Token, error) {
	fields := strings.Fields(line)
	if len(fields) != 3 {
		return Token{}, fmt.Errorf("a line has a role, a token and a name, and this one has %d words", len(fields))
	}
	role, err := ParseRole(fields[0])
	if err != nil {
		return Token{}, err
	}
	digits, hashed := strings.CutPrefix(fields[1], hashPrefix)
	switch {
	case hashed:
		hash, err := hex.DecodeString(digits)
		if err != nil || len(hash) != sha256.Size {
			return Token{}, fmt.Errorf("after %s are 64 hexadecimal digits: printf %%s TOKEN | sha256sum", hashPrefix)
		}
		return Token{Name: fields[2], Role: role, hash: [sha256.Size]byte(hash)}, nil
	case mode.Perm()&0o077 != 0:
		return Token{}, fmt.Errorf("others can read this token (mode %#o): chmod 600, or write its hash, %sHASH", mode.Perm(), hashPrefix)
	case len(fields[1]) < shortestToken:
		return Token{}, fmt.Errorf("the token has fewer than %d characters: openssl rand -hex 32", shortestToken)
	}
	return NewToken(role, fields[1], fields[2]), nil
}

// Check says why an access may not be served at an address. The warning is for the log.
func (a Access) Check(listen netip.AddrPort, encrypted bool) (warning string, err error) {
	named := len(a.Tokens) > 0 || len(a.Certificates) > 0
	switch loopback := listen.Addr().Unmap().IsLoopback(); {
	case a.Open && named:
		return "", errors.New("open lets everybody call everything: remove it, or the tokens and certificates")
	case a.Open && !loopback:
		return "", fmt.Errorf("open is for loopback alone, and %s is not: give tokens or certificates", listen)
	case !a.Open && !named:
		return "", fmt.Errorf("nobody may call %s: give tokens or certificates, or open: true on loopback", listen)
	case len(a.Certificates) > 0 && !encrypted:
		return "", errors.New("certificates of clients need tls: give certificate, key and authorities")
	case len(a.Tokens) > 0 && !encrypted && !loopback:
		return fmt.Sprintf("tokens cross the network to %s unencrypted: give the northbound tls", listen), nil
	}
	return "", nil
}

var (
	errNoCredentials = errors.New("a token or a client certificate is needed")
	errToken         = errors.New("the token is not known")
	errCertificate   = errors.New("no name of the client's certificate has a role")
)

// authenticate returns who sends a request. A token counts before a certificate, and a wrong one is not made good by it.
func (a *Access) authenticate(r *http.Request) (name string, role Role, err error) {
	if a.Open {
		return "", Operator, nil
	}
	secret, given := bearer(r)
	if given {
		return a.token(secret)
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		return a.certificate(r.TLS.VerifiedChains[0][0])
	}
	return "", Nobody, errNoCredentials
}

// token compares with each token, and as long for each, so that time tells nothing.
func (a *Access) token(secret string) (string, Role, error) {
	hash := sha256.Sum256([]byte(secret))
	found := -1
	for i := range a.Tokens {
		if subtle.ConstantTimeCompare(hash[:], a.Tokens[i].hash[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return "", Nobody, errToken
	}
	return a.Tokens[found].Name, a.Tokens[found].Role, nil
}

func (a *Access) certificate(c *x509.Certificate) (name string, role Role, err error) {
	for _, n := range names(c) {
		if r := a.Certificates[n]; r > role {
			name, role = n, r
		}
	}
	if role == Nobody {
		return "", Nobody, errCertificate
	}
	return name, role, nil
}

// names are a certificate's alternative names. Its common name is none: authorities do not check it.
func names(c *x509.Certificate) []string {
	all := append([]string(nil), c.DNSNames...)
	for _, ip := range c.IPAddresses {
		all = append(all, ip.String())
	}
	for _, u := range c.URIs {
		all = append(all, u.String())
	}
	return all
}

// bearer returns the token of a request, from its Authorization or from a WebSocket's subprotocols.
func bearer(r *http.Request) (string, bool) {
	if field := r.Header.Get("Authorization"); field != "" {
		scheme, token, _ := strings.Cut(field, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return "", true // not a token: refused as one that is not known
		}
		return strings.TrimSpace(token), true
	}
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for p := range strings.SplitSeq(line, ",") {
			encoded, ok := strings.CutPrefix(strings.TrimSpace(p), bearerProtocol)
			if !ok {
				continue
			}
			token, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(encoded, "="))
			if err != nil {
				return "", true
			}
			return string(token), true
		}
	}
	return "", false
}

// permit says why a role may not call.
func permit(have, need Role, call string) error {
	if have >= need {
		return nil
	}
	return api.ControllerErrorf(api.ControllerForbidden, "%s is for the role %s, and the caller is a %s", call, need, have)
}
