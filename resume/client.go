package resume

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"baton/resume/part"
	"baton/resume/retry"
)

// Options of a client. The zero value is a client that waits for nobody for longer than Default says.
type Options struct {
	Base         *http.Transport // cloned for each connection; nil: DefaultTransport
	Retry        retry.Policy    // the zero value: retry.Default
	Lanes        int             // connections at a time, at most, when breaks are frequent; 0: 16, 1: never more than one (see package width)
	Stall        time.Duration   // without a byte for so long a connection counts as broken; 0: 15 s
	SpeedLimit   int64           // so does one with fewer bytes per second than these, 0: any
	SpeedTime    time.Duration   // over so long; 0: 30 s
	Restarts     int             // of a file that has changed; 0: 3, negative: none
	Redirects    int             // followed for one request; 0: none
	Final        bool            // go on where the redirects of the first answer led, not at the URL that was given
	Overlap      int64           // bytes that are read again and compared where there is no strong validator, 0: begin again
	Window       int64           // bytes that may be there ahead of one that is missing; 0: 32 MiB
	Waste        float64         // of what is taken: share that connections beside each other may cost besides, and 256 KiB; 0: 0.02, negative: any
	Rate         int64           // bytes per second at most, 0: any number
	ServerHeader string          // field of answers with the server's name, for the account
	Events       func(Event)     // called by one at a time; must not call the client. nil: nobody is told
}

// Default is what the zero values of Options stand for.
func (o Options) withDefaults() Options {
	def := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	if o.Base == nil {
		o.Base = DefaultTransport(0)
	}
	if o.Retry == (retry.Policy{}) {
		o.Retry = retry.Default()
	}
	if o.Lanes == 0 {
		o.Lanes = 16
	}
	if o.Restarts == 0 {
		o.Restarts = 3
	}
	if o.Window == 0 {
		o.Window = 32 << 20
	}
	if o.Waste == 0 {
		o.Waste = 0.02
	}
	def(&o.Stall, 15*time.Second)
	def(&o.SpeedTime, 30*time.Second)
	return o
}

// Client downloads. It may be used by several goroutines at once; its downloads share no connections.
type Client struct{ options Options }

// NewClient takes a copy of the options.
func NewClient(o Options) *Client { return &Client{o.withDefaults()} }

// Request is a file that is wanted.
type Request struct {
	URLs   []string    // of mirrors that have the same file, the one to begin with first
	Header http.Header // sent with each request; Range, If-Range and Accept-Encoding other than what a caller can decode do not belong here
	Have   part.Have   // what is wanted of it, and what is there already; the zero value is all of it, and nothing
	Tail   []byte      // last bytes before Have.Offset, of which Options.Overlap may be compared; nil: none
}

// Check tells whether a request can be made at all.
func (r *Request) Check() error {
	_, _, err := r.check(&Options{})
	return err
}

// check returns the URLs, and what there is.
func (r *Request) check(o *Options) ([]*url.URL, part.Have, error) {
	h := r.Have
	if h.From == 0 && h.Until == 0 && h.Suffix == 0 && h.Offset == 0 && h.Length == 0 {
		h = part.Fresh()
	}
	h.Overlap = o.Overlap
	if h.Offset > h.From {
		h.Overlap = min(h.Overlap, int64(len(r.Tail)))
	}
	var all []*url.URL
	for _, text := range r.URLs {
		u, err := url.Parse(text)
		switch {
		case err != nil:
			return nil, h, fmt.Errorf("read the URL: %w", err)
		case u.Scheme != "http" && u.Scheme != "https":
			return nil, h, fmt.Errorf("read the URL: %q begins with neither http:// nor https://", text)
		case u.Host == "":
			return nil, h, fmt.Errorf("read the URL: %q has no host", text)
		}
		all = append(all, u)
	}
	if len(all) == 0 {
		return nil, h, errors.New("read the URL: there is none")
	}
	return all, h, nil
}
