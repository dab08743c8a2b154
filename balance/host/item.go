package host

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"strings"

	"baton/balance/links"
)

// Item is a part of the host's side that can be made, undone and recorded in the journal: a Device, Address, Neighbour, Route, Rule,
// Offload, Hush or Bridge.
type Item interface {
	// identity is unique: making an item replaces another one with the same identity.
	identity() string
	String() string
}

// Device is a pair of virtual Ethernet interfaces.
type Device struct {
	Name, Peer   string
	MAC, PeerMAC links.MAC
	Owner        string // name of the balance
}

// Address is an address of the internal interface.
type Address struct {
	Device string
	Prefix netip.Prefix
}

// Neighbour is a gateway on the internal interface, so that no packet has to wait for address resolution.
type Neighbour struct {
	Device  string
	Address netip.Addr
	MAC     links.MAC
}

// Route is a route in one of our own tables.
type Route struct {
	Table   int
	IPv6    bool
	Device  string
	To      netip.Prefix // not valid: everything
	Gateway netip.Addr   // not valid: To is on the link
	Source  netip.Addr   // not valid: the kernel's choice
}

// Rule is a routing rule, which looks up a table or jumps to another priority.
type Rule struct {
	IPv6               bool
	Priority           int
	Not                bool         // matches packets that do not match the rest
	From, To           netip.Prefix // not valid: any
	Incoming, Outgoing string       // "lo" as Incoming means packets that the host itself sends
	OfUsers            bool
	Users              Users
	Mark, Mask         uint32
	Table              int
	Suppress           bool // ignore default routes
	Goto               int
}

// Offload switches receive offloads of a link off: Open vSwitch does not accept merged packets. Off lists those that were on before, by
// ethtool's names.
type Offload struct {
	Interface string
	Index     int
	Off       []string
}

// Hush is an nftables table that keeps the host's stack from answering packets that Open vSwitch handles.
type Hush struct {
	Table    string
	Internal string
	Links    []string
}

// Bridge is an Open vSwitch bridge.
type Bridge struct {
	Name       string
	Owner      string // name of the balance
	Controller string
	Ports      []Port
}

// Port is an interface of a bridge.
type Port struct {
	Interface string
	Number    int // OpenFlow port number
}

func (d Device) identity() string    { return "device " + d.Name }
func (a Address) identity() string   { return a.String() }
func (n Neighbour) identity() string { return fmt.Sprintf("neighbour %s %s", n.Device, n.Address) }
func (r Route) identity() string     { return fmt.Sprintf("route %d %t %s", r.Table, r.IPv6, r.To) }
func (r Rule) identity() string      { return fmt.Sprintf("%t %s", r.IPv6, r) }
func (o Offload) identity() string   { return fmt.Sprintf("offload %s %d", o.Interface, o.Index) }
func (h Hush) identity() string      { return "nftables " + h.Table }
func (b Bridge) identity() string    { return "bridge " + b.Name }

func (d Device) String() string    { return "interface " + d.Name }
func (a Address) String() string   { return fmt.Sprintf("address %s on %s", a.Prefix, a.Device) }
func (n Neighbour) String() string { return fmt.Sprintf("neighbour %s on %s", n.Address, n.Device) }
func (o Offload) String() string {
	return fmt.Sprintf("receive offloads of %s (%s)", o.Interface, strings.Join(o.Off, ", "))
}
func (h Hush) String() string   { return "nftables table inet " + h.Table }
func (b Bridge) String() string { return "Open vSwitch bridge " + b.Name }

func (r Route) String() string {
	to := "default"
	if r.To.IsValid() {
		to = r.To.String()
	}
	if r.Gateway.IsValid() {
		to += " via " + r.Gateway.String()
	}
	return fmt.Sprintf("route %s dev %s in table %d", to, r.Device, r.Table)
}

func (r Rule) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "rule %d:", r.Priority)
	add := func(is bool, format string, args ...any) {
		if is {
			fmt.Fprintf(&b, " "+format, args...)
		}
	}
	add(r.Not, "not")
	add(r.From.IsValid(), "from %s", r.From)
	add(r.To.IsValid(), "to %s", r.To)
	add(r.Incoming != "", "iif %s", r.Incoming)
	add(r.Outgoing != "", "oif %s", r.Outgoing)
	add(r.OfUsers, "uidrange %d-%d", r.Users.First, r.Users.Last)
	add(r.Mask != 0, "fwmark %#x/%#x", r.Mark, r.Mask)
	add(r.Table != 0, "lookup %d", r.Table)
	add(r.Suppress, "suppress_prefixlength 0")
	add(r.Goto != 0, "goto %d", r.Goto)
	return b.String()
}

func same(a, b Item) bool { return reflect.DeepEqual(a, b) }

// items are stored with their kinds.
type items []Item

type entry struct {
	Kind string
	Item json.RawMessage
}

// kinds decode items, by the stored kind.
var kinds = map[string]func(json.RawMessage) (Item, error){
	"device": read[Device], "address": read[Address], "neighbour": read[Neighbour], "route": read[Route], "rule": read[Rule],
	"offload": read[Offload], "hush": read[Hush], "bridge": read[Bridge],
}

func read[T Item](text json.RawMessage) (Item, error) {
	var t T
	err := json.Unmarshal(text, &t)
	return t, err
}

func (all items) MarshalJSON() ([]byte, error) {
	list := make([]entry, 0, len(all))
	for _, i := range all {
		text, err := json.Marshal(i)
		if err != nil {
			return nil, err
		}
		list = append(list, entry{strings.ToLower(reflect.TypeOf(i).Name()), text})
	}
	return json.Marshal(list)
}

func (all *items) UnmarshalJSON(text []byte) error {
	var list []entry
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	for _, e := range list {
		of, known := kinds[e.Kind]
		if !known {
			return fmt.Errorf("unknown kind %q", e.Kind)
		}
		i, err := of(e.Item)
		if err != nil {
			return fmt.Errorf("%s: %w", e.Kind, err)
		}
		*all = append(*all, i)
	}
	return nil
}
