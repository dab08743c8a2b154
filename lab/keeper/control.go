package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"baton/document"
	"baton/lab"
	"baton/lab/emulator"
	"baton/lab/topology"
)

// keeper is a lab that is kept up.
type keeper struct {
	lab     *lab.Lab
	record  Record
	network *topology.Network

	mu       sync.Mutex // over what changes while the lab is up
	topology *topology.Topology
	down     map[string]bool // links
}

// Status is how a lab is.
type Status struct {
	Record
	Topology  *topology.Topology `json:"topology"` // with the links' shapes as they are now
	Links     []LinkStatus       `json:"link_status"`
	Processes []ProcessStatus    `json:"processes"`
}

// LinkStatus is how a link is.
type LinkStatus struct {
	Name string           `json:"name"`
	Down bool             `json:"down,omitempty"`
	AToB *emulator.Counts `json:"a_to_b,omitempty"` // nil: the link is not emulated
	BToA *emulator.Counts `json:"b_to_a,omitempty"`
}

// ProcessStatus is how a process is.
type ProcessStatus struct {
	Host   string `json:"host"`
	Name   string `json:"name"`
	PID    int    `json:"pid"`
	Exited bool   `json:"exited,omitempty"`
	Code   int    `json:"code,omitempty"` // -1: ended by a signal
}

// Change is what Set asks for.
type Change struct {
	Link     string            `json:"link"`
	From     string            `json:"from,omitempty"` // only this host's sending direction; "": both directions
	Settings map[string]string `json:"settings"`       // by names of topology.ShapeKeys
}

// invalid is the caller's mistake.
type invalid struct{ error }

func (k *keeper) serve() (stop func(), err error) {
	listener, err := net.Listen("unix", filepath.Join(k.record.Dir, socketFile))
	if err != nil {
		return nil, fmt.Errorf("open the control socket: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", answer(k, k.status))
	mux.HandleFunc("POST /set", answer(k, k.set))
	mux.HandleFunc("POST /carrier", answer(k, k.carrier))
	mux.HandleFunc("GET /capture", k.capture)
	server := &http.Server{Handler: mux, BaseContext: func(net.Listener) context.Context { return ctx }}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // ends with Close
	}()
	return sync.OnceFunc(func() {
		cancel() // what streams ends first
		grace, done := context.WithTimeout(context.Background(), 2*time.Second)
		defer done()
		if server.Shutdown(grace) != nil {
			_ = server.Close()
		}
		<-served
	}), nil
}

// answer serves what f returns for a request's body, one request at a time.
func answer[Q, A any](k *keeper, f func(Q) (A, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q Q
		if r.Method == http.MethodPost {
			if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&q); err != nil {
				fail(w, invalid{fmt.Errorf("read request: %w", err)})
				return
			}
		}
		var text []byte
		k.mu.Lock()
		a, err := f(q)
		if err == nil {
			text, err = json.Marshal(a)
		}
		k.mu.Unlock()
		if err != nil {
			fail(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text) // the client may have gone
	}
}

func fail(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	if errors.As(err, &invalid{}) {
		code = http.StatusBadRequest
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(failure{err.Error()})
}

type failure struct {
	Error string `json:"error"`
}

func (k *keeper) status(struct{}) (*Status, error) {
	s := &Status{Record: k.record, Topology: k.topology}
	for _, spec := range k.topology.Links {
		link := LinkStatus{Name: spec.Name, Down: k.down[spec.Name]}
		if spec.Emulated {
			var there, back emulator.Counts
			if err := lab.Try(func() { there, back = k.network.Links[spec.Name].Counts() }); err != nil {
				return nil, err
			}
			link.AToB, link.BToA = &there, &back
		}
		s.Links = append(s.Links, link)
	}
	for _, h := range k.topology.Hosts {
		for _, spec := range h.Processes {
			p := k.network.Processes[h.Name][spec.Name]
			status := ProcessStatus{Host: h.Name, Name: spec.Name, PID: p.Pid()}
			select {
			case <-p.Done():
				status.Exited, status.Code = true, lab.ExitCode(p.Wait(context.Background()))
			default:
			}
			s.Processes = append(s.Processes, status)
		}
	}
	return s, nil
}

func (k *keeper) linkNames() []string {
	names := make([]string, len(k.topology.Links))
	for i, l := range k.topology.Links {
		names[i] = l.Name
	}
	return names
}

// find gives a link that is emulated.
func (k *keeper) find(name string) (*topology.Link, error) {
	spec := k.topology.Link(name)
	if spec == nil {
		return nil, invalid{fmt.Errorf("there is no link %q in lab %s (%s)", name, k.record.Name, document.Meant(name, k.linkNames()))}
	}
	if !spec.Emulated {
		return nil, invalid{fmt.Errorf("link %s is not emulated: give it a shape or `emulated: true` in %s", name, filepath.Base(k.record.File))}
	}
	return spec, nil
}

// set changes the shape of a link.
func (k *keeper) set(c Change) (*topology.Link, error) {
	spec, err := k.find(c.Link)
	if err != nil {
		return nil, err
	}
	there, back := spec.AToB, spec.BToA
	var shapes []*emulator.Shape
	switch {
	case c.From == "":
		shapes = []*emulator.Shape{&there, &back}
	case spec.A.Host == spec.B.Host:
		return nil, invalid{fmt.Errorf("both ends of link %s are at %s: its directions cannot be distinguished", c.Link, c.From)}
	case c.From == spec.A.Host:
		shapes = []*emulator.Shape{&there}
	case c.From == spec.B.Host:
		shapes = []*emulator.Shape{&back}
	default:
		return nil, invalid{fmt.Errorf("link %s joins %s and %s, not %q", c.Link, spec.A.Host, spec.B.Host, c.From)}
	}
	for _, shape := range shapes {
		for name, text := range c.Settings {
			if err := topology.SetShape(shape, name, text); err != nil {
				return nil, invalid{err}
			}
		}
		if err := shape.Validate(); err != nil {
			return nil, invalid{fmt.Errorf("link %s: %w", c.Link, err)}
		}
	}
	if err := lab.Try(func() { k.network.Links[c.Link].Set(there, back) }); err != nil {
		return nil, err
	}
	spec.AToB, spec.BToA = there, back
	return spec, nil
}

type carrierChange struct {
	Link string `json:"link"`
	Up   bool   `json:"up"`
}

// carrier pulls a link's cable, or plugs it in.
func (k *keeper) carrier(c carrierChange) (LinkStatus, error) {
	if _, err := k.find(c.Link); err != nil {
		return LinkStatus{}, err
	}
	change := k.network.Links[c.Link].Down
	if c.Up {
		change = k.network.Links[c.Link].Up
	}
	if err := lab.Try(change); err != nil {
		return LinkStatus{}, err
	}
	k.down[c.Link] = !c.Up
	return LinkStatus{Name: c.Link, Down: !c.Up}, nil
}

// host gives a host, bridge or switch by the request's parameter.
func (k *keeper) host(r *http.Request) (*lab.Host, error) {
	name := r.FormValue("host")
	h := k.network.Hosts[name]
	if h == nil {
		return nil, invalid{fmt.Errorf("there is no host %q in lab %s (%s)", name, k.record.Name, document.Meant(name, slices.Sorted(maps.Keys(k.network.Hosts))))}
	}
	return h, nil
}

// capture streams what an interface carries as a capture file, until the client goes or has what it asked for.
func (k *keeper) capture(w http.ResponseWriter, r *http.Request) {
	h, err := k.host(r)
	if err != nil {
		fail(w, err)
		return
	}
	name := r.FormValue("interface")
	var names []string
	k.mu.Lock()
	for _, e := range k.topology.At(h.Name()) {
		names = append(names, e.Interface)
	}
	k.mu.Unlock()
	switch {
	case name == "" && len(names) == 1:
		name = names[0]
	case name == "":
		fail(w, invalid{fmt.Errorf("%s has the interfaces %v: choose one", h.Name(), names)})
		return
	}
	if _, err := h.Netlink().LinkByName(name); err != nil {
		fail(w, invalid{fmt.Errorf("%s has no interface %q; there are %v", h.Name(), name, names)})
		return
	}
	most, _ := strconv.Atoi(r.FormValue("count"))
	packets := make(chan lab.Packet, 4096)
	missed := 0
	var c *lab.Capture
	err = lab.Try(func() {
		c = h.Interface(name).Capture(lab.CaptureOptions{Each: func(p lab.Packet) {
			select {
			case packets <- p:
			default:
				missed++ // the client does not keep up
			}
		}})
	})
	if err != nil {
		fail(w, err)
		return
	}
	defer func() {
		if c.Stop(); missed+c.Missed() > 0 {
			fmt.Fprintf(os.Stderr, "capture on %s of %s: %d packets missed\n", name, h.Name(), missed+c.Missed())
		}
	}()
	w.Header().Set("Content-Type", "application/vnd.tcpdump.pcap")
	flush := http.NewResponseController(w)
	file, err := lab.NewPcap(w)
	for n := 0; err == nil && (most == 0 || n < most); n++ {
		if len(packets) == 0 && flush.Flush() != nil {
			return
		}
		select {
		case p := <-packets:
			err = file.Write(p)
		case <-r.Context().Done():
			return
		}
	}
}
