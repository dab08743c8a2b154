//go:build tools

package tools

import _ "sigs.k8s.io/gateway-api/conformance" // its manifests are input of translate's tests
