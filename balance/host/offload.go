package host

import (
	"fmt"
	"slices"
	"strings"

	"github.com/safchain/ethtool"
)

// received are the offloads that merge received packets, by the kernel's names.
var received = []string{"rx-gro", "rx-lro", "rx-gro-hw", "rx-gro-list", "rx-udp-gro-forwarding"}

// measured fills in which offloads of the links are on; the journal has those that were on before.
func (k *stack) measured(want []Item, journal []Item) ([]Item, error) {
	var all []Item
	for _, item := range want {
		o, is := item.(Offload)
		if !is {
			all = append(all, item)
			continue
		}
		for _, j := range journal {
			if j.identity() == o.identity() {
				o.Off = append(o.Off, j.(Offload).Off...)
			}
		}
		on, err := k.active(o)
		if err != nil {
			return nil, err
		}
		o.Off = append(o.Off, on...)
		slices.Sort(o.Off)
		o.Off = slices.Compact(o.Off)
		if len(o.Off) > 0 {
			all = append(all, o)
		}
	}
	return all, nil
}

// active returns the offloads of received that are on and can be switched.
func (k *stack) active(o Offload) ([]string, error) {
	var on []string
	err := k.features(o, func(e *ethtool.Ethtool) error {
		states, err := e.FeaturesWithState(o.Interface)
		for _, name := range received {
			if s := states[name]; s.Active && s.Available && !s.NeverChanged {
				on = append(on, name)
			}
		}
		return err
	})
	return on, err
}

// setOffloads switches the offloads in o.Off.
func (k *stack) setOffloads(o Offload, on bool) error {
	return k.features(o, func(e *ethtool.Ethtool) error {
		set := map[string]bool{}
		for _, name := range o.Off {
			set[name] = on
		}
		return e.Change(o.Interface, set)
	})
}

// features calls f, unless the interface has gone or another one has its name.
func (k *stack) features(o Offload, f func(*ethtool.Ethtool) error) error {
	l, err := k.nl.LinkByName(o.Interface)
	if gone(err) || err == nil && l.Attrs().Index != o.Index {
		return nil
	}
	if err == nil {
		err = ioctl(f)
	}
	if err != nil && !gone(err) {
		return fmt.Errorf("offloads of %s: %w", o.Interface, err)
	}
	return nil
}

func ioctl(f func(*ethtool.Ethtool) error) error {
	e, err := ethtool.NewEthtool()
	if err != nil {
		return err
	}
	defer e.Close()
	return f(e)
}

// wholePackets makes an interface of ours send packets as on a wire: with checksums, and none larger than the MTU.
func wholePackets(name string) error {
	err := ioctl(func(e *ethtool.Ethtool) error {
		states, err := e.FeaturesWithState(name)
		if err != nil {
			return err
		}
		off := map[string]bool{}
		for feature, s := range states {
			of := strings.HasPrefix(feature, "tx-checksum") || strings.HasPrefix(feature, "tx-scatter-gather") ||
				strings.HasPrefix(feature, "tx-") && strings.HasSuffix(feature, "-segmentation") || feature == "tx-gso-list"
			if of && s.Active && s.Available && !s.NeverChanged {
				off[feature] = false
			}
		}
		if len(off) == 0 {
			return nil
		}
		return e.Change(name, off)
	})
	if err != nil {
		return fmt.Errorf("switch the transmit offloads of %s off: %w", name, err)
	}
	return nil
}
