package relay

import kernel "baton/datapath/relay"

// Cleanup removes what a killed relay left in the kernel, and lists it: the rules and routes that steered intercepted packets. Programs,
// maps and flows ended with the process. It fails while a relay intercepts packets here.
func Cleanup() (removed []string, err error) { return kernel.Remove(kernel.Table) }
