package main

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"baton/cmd/cli"
	"baton/cmd/cli/part"
	"baton/resume"
	filepart "baton/resume/part"
	"baton/resume/retry"
)

// defaultOverlap is how much is reread and compared if there is no validator.
const defaultOverlap = 64 << 10

// getOptions are the unparsed flags.
type getOptions struct {
	// Source and destination.
	outputs, mirrors          []string
	continueAt, rng, checksum string
	remoteName, resume        bool

	// Request fields.
	headers                      []string
	agent, referer, user         string
	location, sticky, compressed bool
	redirects                    int

	// Limits.
	limitRate, overlap                                string
	retry, connections, restarts                      int
	retryTime, maxTime, connectTime, speedTime, stall seconds
	speedLimit                                        int64
	refused                                           bool

	// Connections.
	cacert, serverHeader        string
	resolve                     []string
	insecure, ipv4, ipv6, http1 bool

	// Output.
	silent, showError, verbose, progress, json, fail bool
}

// downloadFlags are the flags of downloads only.
func (o *getOptions) downloadFlags(f *pflag.FlagSet) {
	f.StringArrayVarP(&o.outputs, "output", "o", nil, "write to `file`, - is standard output; once for each URL")
	f.BoolVarP(&o.remoteName, "remote-name", "O", false, "write each URL to a file with the name of its last part")
	f.StringArrayVar(&o.mirrors, "mirror", nil, "another `URL` of the same file, in case the first one fails; may be repeated")
	f.BoolVar(&o.resume, "continue", false, "continue an existing file, as -C -")
	f.StringVarP(&o.continueAt, "continue-at", "C", "", "continue at `offset`: - is the end of the existing file")
	f.StringVarP(&o.rng, "range", "r", "", "download this `range` of bytes: 0-499, 500- or -500")
	f.StringVar(&o.checksum, "checksum", "", "`algorithm:hex` that the file must have: sha256 or sha512")
	f.VarP(&o.maxTime, "max-time", "m", "most `seconds` for a file, 0: no limit")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "print a line for each answer and each break")
	f.BoolVar(&o.progress, "progress", false, "draw the progress bar even if standard error is no terminal")
	f.BoolVar(&o.json, "json", false, "print events as JSON, one per line; to standard error if the file goes to standard output")
	f.BoolVarP(&o.fail, "fail", "f", true, "write no error responses; always on")
	f.BoolVar(&o.compressed, "compressed", false, "is refused: parts of coded responses rarely fit")
}

// requestFlags are the flags for requests.
func (o *getOptions) requestFlags(f *pflag.FlagSet) {
	f.StringArrayVarP(&o.headers, "header", "H", nil, "send `Name: value`; may be repeated")
	f.StringVarP(&o.agent, "user-agent", "A", "baton/"+version, "send this User-Agent `name`")
	f.StringVarP(&o.referer, "referer", "e", "", "send this Referer `URL`")
	f.StringVarP(&o.user, "user", "u", "", "authenticate as `name:password` (Basic)")
	f.BoolVarP(&o.location, "location", "L", false, "follow redirects")
	f.IntVar(&o.redirects, "max-redirs", 50, "follow at most this `number` of redirects")
	f.BoolVar(&o.sticky, "sticky", false, "resume at the target of redirects, not at the original URL")
}

// boundFlags are the flags for timeouts and retries.
func (o *getOptions) boundFlags(f *pflag.FlagSet) {
	o.connectTime, o.stall, o.speedTime = seconds(30*time.Second), seconds(15*time.Second), seconds(30*time.Second)
	f.StringVar(&o.limitRate, "limit-rate", "", "most `bytes` per second; k, M, G for powers of 1024")
	f.IntVar(&o.retry, "retry", 10, "give up after this `number` of consecutive tries without data")
	f.Var(&o.retryTime, "retry-max-time", "give up after this many `seconds` without data, 0: never")
	f.BoolVar(&o.refused, "retry-connrefused", false, "retry even if no connection can be established")
	f.Var(&o.stall, "stall", "a connection without data for this many `seconds` is broken")
	f.Int64VarP(&o.speedLimit, "speed-limit", "Y", 0, "a connection with fewer `bytes` per second is broken")
	f.VarP(&o.speedTime, "speed-time", "y", "if it stays below --speed-limit for this many `seconds`")
	f.IntVar(&o.connections, "connections", 16, "most connections at a time (`number`), if breaks are frequent; 1: never more")
	f.IntVar(&o.restarts, "restarts", 3, "start over at most this `number` of times if the file changes")
	f.StringVar(&o.overlap, "overlap", "", "without a strong validator, reread and compare this many `bytes`")
	f.Lookup("overlap").NoOptDefVal = strconv.Itoa(defaultOverlap)
}

// networkFlags are the flags for connections.
func (o *getOptions) networkFlags(f *pflag.FlagSet) {
	f.Var(&o.connectTime, "connect-timeout", "most `seconds` for a handshake")
	f.StringVar(&o.cacert, "cacert", "", "trust only the certificates in `file`")
	f.BoolVarP(&o.insecure, "insecure", "k", false, "trust every certificate")
	f.StringArrayVar(&o.resolve, "resolve", nil, "use these addresses for a host (`host:port:address[,address...]`); may be repeated")
	f.BoolVarP(&o.ipv4, "ipv4", "4", false, "use IPv4 alone")
	f.BoolVarP(&o.ipv6, "ipv6", "6", false, "use IPv6 alone")
	f.BoolVar(&o.http1, "http1.1", false, "use no HTTP/2")
	f.StringVar(&o.serverHeader, "server-header", "", "`name` of the header field that identifies servers with the same address")
	f.BoolVarP(&o.silent, "silent", "s", false, "print nothing, not even errors")
	f.BoolVarP(&o.showError, "show-error", "S", false, "print errors even with -s")
}

// seconds is the value of a flag: a number of seconds, as in curl, or a time with its unit.
type seconds time.Duration

func (s *seconds) Set(text string) error {
	d, err := time.ParseDuration(text)
	if n, plain := strconv.ParseFloat(text, 64); plain == nil {
		d, err = time.Duration(min(n, 1e9)*float64(time.Second)), nil
	}
	if err != nil || d < 0 || d.Seconds() > 1e9 {
		return fmt.Errorf("%q is not a time: seconds such as 1.5, or with a unit, such as 500ms or 2m", text)
	}
	*s = seconds(d)
	return nil
}

func (s *seconds) String() string {
	return strconv.FormatFloat(time.Duration(*s).Seconds(), 'g', -1, 64)
}

// Type is for the help.
func (s *seconds) Type() string { return "seconds" }

// jobs checks the flags, and returns the downloads in order.
func (o *getOptions) jobs(urls []string) ([]*getJob, error) {
	if len(urls) > 1 {
		switch {
		case len(o.mirrors) > 0:
			return nil, fmt.Errorf("--mirror needs a single URL: %d URLs are %d files", len(urls), len(urls))
		case o.checksum != "" || o.rng != "" || o.continueAt != "" && o.continueAt != "-":
			return nil, errors.New("--checksum, --range and an offset need a single URL")
		}
	}
	if len(o.outputs) > len(urls) {
		return nil, fmt.Errorf("more -o (%d) than URLs (%d)", len(o.outputs), len(urls))
	}
	var all []*getJob
	for i, u := range urls {
		output := ""
		if i < len(o.outputs) {
			output = o.outputs[i]
		}
		j, err := o.job(append([]string{u}, o.mirrors...), output)
		if err != nil {
			return nil, err
		}
		for k, other := range all {
			if j.file != "" && !special(j.file) && filepath.Clean(j.file) == filepath.Clean(other.file) {
				return nil, fmt.Errorf("%s and %s would both be written to %s: give each a name by -o FILE", urls[k], u, j.file)
			}
		}
		all = append(all, j)
	}
	return all, nil
}

// job returns the download of one file with its mirrors.
func (o *getOptions) job(urls []string, output string) (*getJob, error) {
	j := &getJob{request: resume.Request{URLs: urls, Have: filepart.Fresh()}, offset: -1}
	if o.compressed {
		return nil, errors.New("--compressed: parts of coded responses rarely fit; -H 'Accept-Encoding: gzip' stores coded bytes as they are")
	}
	for _, u := range urls {
		if !strings.Contains(u, "://") {
			return nil, fmt.Errorf("%q has no scheme: did you mean https://%s?", u, u)
		}
	}
	if err := o.where(j, output); err != nil {
		return nil, err
	}
	for _, step := range []func(*getJob) error{o.which, o.fields, o.bounds, o.network} {
		if err := step(j); err != nil {
			return nil, err
		}
	}
	return j, j.request.Check()
}

// where returns the output file.
func (o *getOptions) where(j *getJob, output string) error {
	switch {
	case output != "" && o.remoteName:
		return errors.New("-o and -O contradict each other")
	case o.remoteName:
		u, err := url.Parse(j.request.URLs[0])
		if err != nil {
			return fmt.Errorf("-O: %w", err)
		}
		j.file = path.Base(u.Path)
		if strings.HasSuffix(u.Path, "/") || j.file == "." || j.file == "/" || j.file == ".." || strings.ContainsAny(j.file, "/\\\x00") {
			return fmt.Errorf("-O: %s has no file name: give it one by -o FILE", j.request.URLs[0])
		}
	case output != "-":
		j.file = output
	}
	if err := usable(j.file); err != nil {
		return cli.ExitError{Err: err, Status: exitOf[resume.Output]}
	}
	switch {
	case o.continueAt == "":
		j.resume = o.resume
	case o.continueAt == "-":
		j.resume = true
	default:
		at, err := strconv.ParseInt(o.continueAt, 10, 63)
		if err != nil || at < 0 {
			return fmt.Errorf("-C: %q is neither an offset nor -", o.continueAt)
		}
		j.resume, j.offset = at > 0, at
	}
	if j.resume && j.file == "" {
		return errors.New("continuing a file needs its name: -o or -O")
	}
	return nil
}

// usable refuses an impossible output file before anything is requested.
func usable(file string) error {
	if dir := filepath.Dir(file); file != "" && !part.Exists(dir) {
		return fmt.Errorf("directory %s does not exist", dir)
	}
	if st, err := os.Stat(file); err == nil && st.IsDir() {
		return fmt.Errorf("%s is a directory: name a file in it, such as -o %s", file, filepath.Join(file, "FILE"))
	}
	return nil
}

// which reads the range and the checksum.
func (o *getOptions) which(j *getJob) error {
	if o.rng != "" {
		h, err := wantedRange(o.rng)
		if err != nil {
			return err
		}
		if o.continueAt != "" && o.continueAt != "-" {
			return errors.New("-r and an offset for -C contradict each other")
		}
		j.request.Have = h
	}
	if o.checksum == "" {
		return nil
	}
	algorithm, text, _ := strings.Cut(o.checksum, ":")
	name := map[string]string{"sha256": "sha-256", "sha-256": "sha-256", "sha512": "sha-512", "sha-512": "sha-512"}[strings.ToLower(algorithm)]
	sum, err := hex.DecodeString(strings.TrimSpace(text))
	size := map[string]int{"sha-256": 32, "sha-512": 64}[name]
	if name == "" || err != nil || len(sum) != size {
		return fmt.Errorf("--checksum: %q is not sha256: and 64 hexadecimal digits, or sha512: and 128", o.checksum)
	}
	j.want = filepart.Digests{name: sum}
	return nil
}

// wantedRange parses a single range as in a Range field.
func wantedRange(s string) (filepart.Have, error) {
	h := filepart.Fresh()
	first, last, ok := strings.Cut(s, "-")
	wrong := fmt.Errorf("-r: %q is not one range: 0-499, 500- or -500", s)
	if !ok {
		return h, wrong
	}
	number := func(s string) (n int64, ok bool) {
		v, err := strconv.ParseUint(s, 10, 62)
		return int64(v), err == nil
	}
	if first == "" {
		n, ok := number(last)
		if !ok || n == 0 {
			return h, wrong
		}
		h.Suffix = n
		return h, nil
	}
	if h.From, ok = number(first); !ok {
		return h, wrong
	}
	h.Offset = h.From
	if last != "" {
		n, ok := number(last)
		if !ok || n < h.From {
			return h, wrong
		}
		h.Until = n + 1
	}
	return h, nil
}

// fields returns the request fields.
func (o *getOptions) fields(j *getJob) error {
	h := make(http.Header)
	h.Set("User-Agent", o.agent)
	h.Set("Accept", "*/*")
	if o.referer != "" {
		h.Set("Referer", o.referer)
	}
	if o.user != "" {
		if !strings.Contains(o.user, ":") {
			return errors.New("-u: the password is missing, and there is no prompt: name:password")
		}
		h.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(o.user)))
	}
	for _, line := range o.headers {
		name, value, ok := strings.Cut(line, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case !ok && strings.HasSuffix(line, ";"): // curl's syntax for an empty field
			h[http.CanonicalHeaderKey(strings.TrimSuffix(line, ";"))] = []string{""}
		case !ok || name == "":
			return fmt.Errorf("-H: %q is not Name: value", line)
		case strings.EqualFold(name, "Range") || strings.EqualFold(name, "If-Range"):
			return fmt.Errorf("-H: baton get sends %s itself: use -r", name)
		case value == "":
			h.Del(name) // as in curl
			if strings.EqualFold(name, "User-Agent") {
				h["User-Agent"] = []string{""}
			}
		case strings.EqualFold(name, "User-Agent"), strings.EqualFold(name, "Accept"):
			h.Set(name, value)
		default:
			h.Add(name, value)
		}
	}
	j.request.Header = h
	return nil
}

// bounds sets the limits on time, tries and bytes.
func (o *getOptions) bounds(j *getJob) error {
	for name, v := range map[string]int64{"--retry": int64(o.retry), "--speed-limit": o.speedLimit, "--connections": int64(o.connections),
		"--restarts": int64(o.restarts), "--max-redirs": int64(o.redirects)} {
		if v < 0 || v > 1e9 {
			return fmt.Errorf("%s: %v is out of range: from 0 to 1000000000", name, v)
		}
	}
	p := retry.Default()
	p.Tries, p.Time, p.Outages = o.retry, time.Duration(o.retryTime), o.refused
	j.options = resume.Options{
		Retry: p, Lanes: max(1, o.connections), Stall: time.Duration(o.stall), SpeedLimit: o.speedLimit, SpeedTime: time.Duration(o.speedTime),
		Restarts: o.restarts, Final: o.sticky, ServerHeader: o.serverHeader,
	}
	if o.restarts == 0 {
		j.options.Restarts = -1
	}
	if o.location {
		j.options.Redirects = o.redirects
	}
	var err error
	if j.options.Rate, err = amount(o.limitRate); err != nil {
		return fmt.Errorf("--limit-rate: %w", err)
	}
	if j.options.Overlap, err = amount(o.overlap); err != nil {
		return fmt.Errorf("--overlap: %w", err)
	}
	if j.options.Overlap > 16<<20 {
		return errors.New("--overlap: 16M at most")
	}
	return nil
}

// amount parses a number of bytes as curl's --limit-rate does; "" is 0.
func amount(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	digits, unit := s, 1.0
	switch s[len(s)-1] {
	case 'k', 'K':
		unit = 1 << 10
	case 'm', 'M':
		unit = 1 << 20
	case 'g', 'G':
		unit = 1 << 30
	}
	if unit > 1 {
		digits = s[:len(s)-1]
	}
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || n < 0 || n*unit > 1<<60 || n*unit < 1 {
		return 0, fmt.Errorf("%q is not a number of bytes, such as 500, 200k or 1.5M", s)
	}
	return int64(n * unit), nil
}
