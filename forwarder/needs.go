package forwarder

import kernel "baton/datapath/forwarder"

// Needs is what the forwarder needs of a host.
var Needs = kernel.Needs
