package resume

import "time"

// Event is an event of a download: [Progress], [Answered], [Broke], [Waiting], [Restarted] or [Width]. Progress bars and logs use them.
type Event interface{ event() }

// Progress reports bytes received in order.
type Progress struct {
	Offset int64 `json:"offset"` // end of these bytes
	From   int64 `json:"from"`   // first requested byte
	End    int64 `json:"end"`    // end of the requested bytes, -1: unknown
}

// Answered reports a server whose content is used.
type Answered struct {
	Server   string        `json:"server"`            // address
	Name     string        `json:"name,omitempty"`    // value of Options.ServerHeader
	URL      string        `json:"url"`               // after redirects
	Protocol string        `json:"protocol"`          // HTTP/1.1
	Status   int           `json:"status"`            // 200 or 206
	Offset   int64         `json:"offset"`            // of the first byte used
	Skip     int64         `json:"skip,omitempty"`    // bytes skipped because they exist already
	Length   int64         `json:"length"`            // of the file, -1: unknown
	Proof    string        `json:"proof"`             // the validator, as text
	Coding   string        `json:"coding,omitempty"`  // content coding
	Lane     int           `json:"lane"`              // from 0
	Connect  time.Duration `json:"connect,omitempty"` // TCP handshake, in ns; 0 on an existing connection
	First    time.Duration `json:"first"`             // from the start of the try to the head
	Lost     time.Duration `json:"lost,omitempty"`    // since the preceding break, 0 without one
}

// Broke reports a failed try, or content that broke off.
type Broke struct {
	Error  *Error `json:"-"`
	Why    string `json:"why"`
	Kind   Kind   `json:"kind"`
	Server string `json:"server,omitempty"`
	Lane   int    `json:"lane"`
	Bytes  int64  `json:"bytes"`  // received
	Offset int64  `json:"offset"` // first missing byte
}

// Waiting reports a pause before the next try.
type Waiting struct {
	For time.Duration `json:"for"`
	URL string        `json:"url"` // next
}

// Restarted reports a download that starts over: Bytes were discarded.
type Restarted struct {
	Why   string `json:"why"`
	Bytes int64  `json:"bytes"`
}

// Width reports the current number of connections.
type Width struct {
	Lanes int           `json:"lanes"`
	Life  time.Duration `json:"life"` // average life of a connection
}

func (Progress) event()  {}
func (Answered) event()  {}
func (Broke) event()     {}
func (Waiting) event()   {}
func (Restarted) event() {}
func (Width) event()     {}

// Account is the cost of a download.
type Account struct {
	Bytes    int64         `json:"bytes"`    // used
	Wasted   int64         `json:"wasted"`   // received but discarded
	Requests int           `json:"requests"` // without redirects
	Breaks   int           `json:"breaks"`   // connections that broke during content
	Failures int           `json:"failures"` // tries without content
	Restarts int           `json:"restarts"`
	Switches int           `json:"switches"` // changes of server or address between responses
	Lost     time.Duration `json:"lost"`     // between breaks and the next content, divided by the number of connections
	Lanes    int           `json:"lanes"`    // most connections at a time
	Servers  []Server      `json:"servers"`
}

// Server is a server that has answered.
type Server struct {
	Address string `json:"address"`
	Name    string `json:"name,omitempty"` // value of Options.ServerHeader
	Answers int    `json:"answers"`
	Bytes   int64  `json:"bytes"`
}
