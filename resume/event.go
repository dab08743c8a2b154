package resume

import "time"

// Event is something that happened to a download: [Progress], [Answered], [Broke], [Waiting], [Restarted] or [Width]. Progress bars and logs
// are drawn from them.
type Event interface{ event() }

// Progress is bytes that came, in order.
type Progress struct {
	Offset int64 `json:"offset"` // behind the last of them
	From   int64 `json:"from"`   // first byte that is wanted
	End    int64 `json:"end"`    // of what is wanted, -1: not known
}

// Answered is a server whose content is taken.
type Answered struct {
	Server   string        `json:"server"`            // address
	Name     string        `json:"name,omitempty"`    // value of Options.ServerHeader
	URL      string        `json:"url"`               // after redirects
	Protocol string        `json:"protocol"`          // HTTP/1.1
	Status   int           `json:"status"`            // 200 or 206
	Offset   int64         `json:"offset"`            // of its first byte that is taken
	Skip     int64         `json:"skip,omitempty"`    // bytes of it that were there already
	Length   int64         `json:"length"`            // of the file, -1: not known
	Proof    string        `json:"proof"`             // the validator, for people
	Coding   string        `json:"coding,omitempty"`  // content coding
	Lane     int           `json:"lane"`              // from 0
	Connect  time.Duration `json:"connect,omitempty"` // of TCP's handshake, in ns; 0 on a connection that was there
	First    time.Duration `json:"first"`             // from the begin of the try to the head
	Lost     time.Duration `json:"lost,omitempty"`    // since the break before it, 0 without one
}

// Broke is a try that failed, or content that broke off.
type Broke struct {
	Error  *Error `json:"-"`
	Why    string `json:"why"`
	Kind   Kind   `json:"kind"`
	Server string `json:"server,omitempty"`
	Lane   int    `json:"lane"`
	Bytes  int64  `json:"bytes"`  // that it brought
	Offset int64  `json:"offset"` // that is missing now
}

// Waiting is a pause before the next try.
type Waiting struct {
	For time.Duration `json:"for"`
	URL string        `json:"url"` // next
}

// Restarted is a file that begins again: Bytes of it were of no use any more.
type Restarted struct {
	Why   string `json:"why"`
	Bytes int64  `json:"bytes"`
}

// Width is how many connections there are now.
type Width struct {
	Lanes int           `json:"lanes"`
	Life  time.Duration `json:"life"` // of a connection, on the average
}

func (Progress) event()  {}
func (Answered) event()  {}
func (Broke) event()     {}
func (Waiting) event()   {}
func (Restarted) event() {}
func (Width) event()     {}

// Account is what a download has cost.
type Account struct {
	Bytes    int64         `json:"bytes"`    // that were taken
	Wasted   int64         `json:"wasted"`   // that came and were not
	Requests int           `json:"requests"` // redirects not counted
	Breaks   int           `json:"breaks"`   // connections that broke within their content
	Failures int           `json:"failures"` // tries without content
	Restarts int           `json:"restarts"`
	Switches int           `json:"switches"` // of server or address, from one answer to the next
	Lost     time.Duration `json:"lost"`     // between breaks and the next content, shared by the connections that there were
	Lanes    int           `json:"lanes"`    // most connections at a time
	Servers  []Server      `json:"servers"`
}

// Server is one that has answered.
type Server struct {
	Address string `json:"address"`
	Name    string `json:"name,omitempty"` // value of Options.ServerHeader
	Answers int    `json:"answers"`
	Bytes   int64  `json:"bytes"`
}
