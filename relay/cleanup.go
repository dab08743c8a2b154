package relay

import kernel "baton/datapath/relay"

// Cleanup removes what a relay that was killed has left in the kernel, and says what that was: the rules and routes by which intercepted
// packets came to it. Programs, tables and flows have ended with the process. It is refused while a relay intercepts packets here.
func Cleanup() (removed []string, err error) { return kernel.Remove(kernel.Table) }
