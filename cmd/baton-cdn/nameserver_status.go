package main

import (
	"fmt"
	"io"
	"net/netip"
	"strings"
	"text/tabwriter"
	"time"

	"baton/api"
	"baton/cmd/cli"
)

func printNameserver(out io.Writer, s *api.NameserverStatus, wide bool, now time.Time) error {
	fmt.Fprintf(out, "baton %s, pid %d, up %s, listens on %s\n", s.Version, s.PID, now.Sub(s.Started).Round(time.Second), joined(s.Listen))
	fmt.Fprintf(out, "%d queries; %d answers above the limits were omitted, %d shortened; %d of %d connections\n", s.Queries, s.Omitted, s.Slipped,
		s.Connections.Used, s.Connections.Limit)
	if wide {
		fmt.Fprintf(out, "%s, read %s ago; %d reloads, %d refused\n", s.Config, cli.Age(now, s.Loaded), s.Reloads, s.ReloadsFailed)
		fmt.Fprintf(out, "queries with a client subnet %d, with a valid cookie %d, for signatures %d; transfers %d\n", s.Subnets, s.Cookies, s.DNSSEC, s.Transfers)
		fmt.Fprintf(out, "ignored %d, truncated %d, not sent %d; connections refused %d\n", s.Ignored, s.Truncated, s.Unsent, s.ConnectionsRefused)
	}
	if s.Controller != nil {
		fmt.Fprintln(out, controllerLine(s.Controller, now))
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nZONE\tSERIAL\tRECORDS\tROUTED\tSIGNED\tREAD\tFILE")
	for _, z := range s.Zones {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%s\t%s\n", z.Name, z.Serial, z.Records, z.Routed, yes(z.Signed), cli.Age(now, z.Loaded), z.File)
	}
	printKeys(w, s.Zones, now)
	if len(s.Services) > 0 {
		fmt.Fprintln(w, "\nSERVICE\tDECISIONS\tFALLBACKS")
		for _, v := range s.Services {
			fmt.Fprintf(w, "%s\t%d\t%d\n", v.Name, v.Decisions, v.Fallbacks)
		}
		fmt.Fprintln(w, "\nSURROGATE\tSITE\tADDRESSES\tUP\tBY\tSTATE\tWEIGHT\tSESSIONS\tCHOSEN\tFAULT")
		for _, u := range s.Surrogates {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\n", u.Name, u.Site, joined(u.Addresses), yes(u.Up), u.Source, u.State, u.Weight, u.Sessions,
				u.Chosen, cli.Dash(u.Error))
		}
	}
	if s.Controller != nil {
		printSites(w, s.Sites)
	}
	cli.Counted(w, "ANSWER", "QUERIES", s.Answers)
	cli.Counted(w, "REFUSED", "QUERIES", s.Refused)
	if err := w.Flush(); err != nil {
		return err
	}
	for _, z := range s.Zones {
		if z.Error != "" {
			fmt.Fprintf(out, "\nzone %s is not as its file is:\n%s\n", z.Name, z.Error)
		}
	}
	return nil
}

func joined[T netip.Addr | netip.AddrPort](all []T) string {
	var texts []string
	for _, a := range all {
		texts = append(texts, fmt.Sprint(a))
	}
	return strings.Join(texts, ", ")
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// controllerLine says where the state of the surrogates is from, and how old it is.
func controllerLine(c *api.NameserverController, now time.Time) string {
	switch {
	case c.Connected:
		return fmt.Sprintf("surrogates: by the controller %s, %d of them; distances from %d networks", c.URL, c.Surrogates, c.Zones)
	case c.Heard == nil:
		return "surrogates: by the checks; no controller was ever reached: " + cli.Dash(c.Error)
	case c.Source == "kept":
		return fmt.Sprintf("surrogates: by what the controller said %s ago, for %v at most: %s", cli.Age(now, *c.Heard), c.Keep, cli.Dash(c.Error))
	}
	return fmt.Sprintf("surrogates: by the checks; the controller is gone since %s: %s", cli.Age(now, *c.Heard), cli.Dash(c.Error))
}

func printSites(w io.Writer, sites []api.NameserverSite) {
	fmt.Fprintln(w, "\nSITE\tSERVE\tSESSIONS\tCAPACITY\tFULL")
	for _, s := range sites {
		capacity := "-"
		if s.Capacity > 0 {
			capacity = fmt.Sprint(s.Capacity)
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\n", s.Name, s.Serves, s.Sessions, capacity, yes(s.Full))
	}
}

// printKeys says what each key does and what it will do next.
func printKeys(w io.Writer, zones []api.NameserverZone, now time.Time) {
	head := "\nKEY OF\tTAG\tROLE\tALGORITHM\tNOW\tNEXT\n"
	for _, z := range zones {
		for _, k := range z.Keys {
			next := "-"
			if k.At != nil {
				next = fmt.Sprintf("%s in %s, %s", k.Next, k.At.Sub(now).Round(time.Second), k.At.UTC().Format(time.RFC3339))
			}
			fmt.Fprintf(w, "%s%s\t%d\t%s\t%s\t%s\t%s\n", head, z.Name, k.Tag, k.Role, k.Algorithm, k.Now, next)
			head = ""
		}
	}
}
