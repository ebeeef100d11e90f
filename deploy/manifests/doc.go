// Package manifests holds nothing but tests of the files in deploy: what no container engine and no cluster is needed
// for to find out. It is a module of its own so that the product does not depend on Kubernetes' types.
//
//		cd deploy/manifests && go test ./...
//
//	  - Each kustomization is rendered as kubectl does it, and every object is read strictly into its API type: a field
//	    that the API does not know is an error, as is one given twice.
//	  - What refers to something is followed: ports, selectors, policies' peers, volumes, generated names, variables.
//	  - The Compose file is read by the Compose specification's own loader and schema.
//	  - Rules, their unit tests and the dashboards' expressions are run through promtool, and the system service through
//	    systemd-analyze, where those are installed; else the test is skipped and says so.
//	  - Every alert has a heading in the runbook.
//
// It shows that the files are well formed and fit together. It does not show that images can be pulled, that a scheduler
// finds room, or how a cloud's volumes behave.
package manifests
