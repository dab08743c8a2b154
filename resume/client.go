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

// Options of a client. The zero value uses the defaults of Default.
type Options struct {
	Base         *http.Transport // cloned for each connection; nil: DefaultTransport
	Retry        retry.Policy    // the zero value: retry.Default
	Lanes        int             // most connections at a time, if breaks are frequent; 0: 16, 1: never more than one (see package width)
	Stall        time.Duration   // a connection without a byte for this long counts as broken; 0: 15 s
	SpeedLimit   int64           // so does a slower one, in bytes per second; 0: no limit
	SpeedTime    time.Duration   // over this time; 0: 30 s
	Restarts     int             // if the file has changed; 0: 3, negative: none
	Redirects    int             // followed for one request; 0: none
	Final        bool            // resume at the URL that the first response was redirected to, not at the original one
	Overlap      int64           // bytes to reread and compare if there is no strong validator; 0: restart
	Window       int64           // most bytes to hold ahead of a missing one; 0: 32 MiB
	Waste        float64         // share of the received bytes, plus 256 KiB, that parallel connections may waste; 0: 0.02, negative: no limit
	Rate         int64           // most bytes per second; 0: no limit
	ServerHeader string          // header field of responses with the server's name, for the account
	Events       func(Event)     // called by one goroutine at a time; must not call the client. nil: none
}

// Default is used for zero values of Options.
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

// Client downloads files. Several goroutines may use it at once; its downloads do not share connections.
type Client struct{ options Options }

// NewClient copies the options.
func NewClient(o Options) *Client { return &Client{o.withDefaults()} }

// Request is a file to download.
type Request struct {
	URLs   []string    // mirrors of the same file, in order of preference
	Header http.Header // sent with each request; not Range, If-Range, or an Accept-Encoding that the caller cannot decode
	Have   part.Have   // the requested part, and how much of it exists already; the zero value is all of the file, and nothing
	Tail   []byte      // last bytes before Have.Offset, to be compared with Options.Overlap; nil: none
}

// Check reports whether the request is valid.
func (r *Request) Check() error {
	_, _, err := r.check(&Options{})
	return err
}

// check returns the URLs and the existing part.
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
			return nil, h, fmt.Errorf("parse the URL: %w", err)
		case u.Scheme != "http" && u.Scheme != "https":
			return nil, h, fmt.Errorf("parse the URL: %q begins with neither http:// nor https://", text)
		case u.Host == "":
			return nil, h, fmt.Errorf("parse the URL: %q has no host", text)
		}
		all = append(all, u)
	}
	if len(all) == 0 {
		return nil, h, errors.New("parse the URL: none is given")
	}
	return all, h, nil
}
