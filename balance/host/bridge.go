package host

import (
	"bytes"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// vsctlTimeout is how long Open vSwitch may take to do what it was told, in seconds.
const vsctlTimeout = 20

// ownerKey is where a bridge says whose it is, so that it is known without a journal: Open vSwitch's database outlives a restart of the host.
const ownerKey = "external_ids:baton-balance"

// vsctl runs ovs-vsctl, which waits until the switch has done it. It dies with us.
func vsctl(args ...string) (string, error) {
	// The kernel sends the signal when the thread ends that has started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command("ovs-vsctl", append([]string{fmt.Sprintf("--timeout=%d", vsctlTimeout)}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("ovs-vsctl %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// bridgeOwner is whose bridge it is: "" when there is none, or nobody has told.
func bridgeOwner(name string) (owner string, there bool, err error) {
	names, err := vsctl("list-br")
	if err != nil || !slices.Contains(strings.Fields(names), name) {
		return "", false, err
	}
	owner, err = vsctl("--if-exists", "get", "bridge", name, ownerKey)
	return strings.Trim(owner, `"`), true, err
}

// bridgeQoS is the record that has Open vSwitch leave the queues of a bridge's ports alone: without one it deletes those that are there.
func bridgeQoS(owner string) (id string, err error) {
	out, err := vsctl("--columns=_uuid", "--format=csv", "--data=bare", "--no-headings", "find", "qos", ownerKey+"="+owner)
	id, _, _ = strings.Cut(out, "\n")
	return id, err
}

// freeBridge refuses to take a bridge that is somebody else's.
func (k *stack) freeBridge(b Bridge) error {
	owner, there, err := bridgeOwner(b.Name)
	if err != nil {
		return fmt.Errorf("look for the bridge %s: %w", b.Name, err)
	}
	if there && owner != b.Owner {
		return fmt.Errorf("there is an Open vSwitch bridge %s, which is not ours (internal.interface has another)", b.Name)
	}
	return nil
}

// makeBridge makes the bridge and its ports in one transaction, or changes them.
func (k *stack) makeBridge(b Bridge) error {
	if was, made := k.bridges[b.Name]; made && same(was, b) {
		return nil
	}
	var there []string
	if _, is, err := bridgeOwner(b.Name); err != nil {
		return err
	} else if is {
		list, err := vsctl("list-ports", b.Name)
		if err != nil {
			return err
		}
		there = strings.Fields(list)
	}
	qos, err := bridgeQoS(b.Owner)
	if err != nil {
		return err
	}
	if _, err := vsctl(bridgeCommand(b, there, qos)...); err != nil {
		return err
	}
	if err := checkPorts(b); err != nil {
		return err
	}
	k.bridges[b.Name] = b
	return nil
}

// bridgeCommand is what ovs-vsctl is told, of a bridge that has these ports and this record for queues, or is not there.
func bridgeCommand(b Bridge, there []string, qos string) []string {
	args := []string{
		"--may-exist", "add-br", b.Name, "--", "set", "bridge", b.Name, "datapath_type=netdev", "fail_mode=secure", "protocols=OpenFlow13",
		ownerKey + "=" + b.Owner, "other_config:disable-in-band=true",
	}
	if b.Controller == "" {
		args = append(args, "--", "del-controller", b.Name)
	} else {
		args = append(args, "--", "set-controller", b.Name, b.Controller, "--", "set", "controller", b.Name, "connection-mode=out-of-band")
	}
	for _, port := range there {
		if !slices.ContainsFunc(b.Ports, func(p Port) bool { return p.Interface == port }) {
			args = append(args, "--", "--if-exists", "del-port", b.Name, port)
		}
	}
	if qos == "" {
		qos = "@qos"
		args = append(args, "--", "--id="+qos, "create", "qos", "type=linux-noop", ownerKey+"="+b.Owner)
	}
	for _, p := range b.Ports {
		args = append(args, "--", "--may-exist", "add-port", b.Name, p.Interface,
			"--", "set", "interface", p.Interface, "ofport_request="+strconv.Itoa(p.Number), "--", "set", "port", p.Interface, "qos="+qos)
	}
	return args
}

// checkPorts refuses a bridge that could not take the inside's port, or gave it another number. Links may come later.
func checkPorts(b Bridge) error {
	internal := b.Ports[0]
	out, err := vsctl("--columns=ofport,error", "--format=csv", "--data=bare", "--no-headings", "find", "interface", "name="+internal.Interface)
	if err != nil {
		return err
	}
	number, fault, _ := strings.Cut(out, ",")
	if number != strconv.Itoa(internal.Number) {
		return fmt.Errorf("port %s is number %s instead of %d: %s", internal.Interface, number, internal.Number, fault)
	}
	return nil
}

func (k *stack) undoBridge(b Bridge) (bool, error) {
	delete(k.bridges, b.Name)
	owner, there, err := bridgeOwner(b.Name)
	if err != nil {
		return false, err
	}
	if there && owner != b.Owner {
		return false, nil
	}
	if there {
		if _, err := vsctl("--if-exists", "del-br", b.Name); err != nil {
			return false, err
		}
	}
	qos, err := bridgeQoS(b.Owner)
	if err != nil || qos == "" {
		return there, err
	}
	_, err = vsctl("--if-exists", "destroy", "qos", qos) // not before its ports
	return true, err
}
