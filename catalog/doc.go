// Package catalog is tool definitions in, disclosure out.
package catalog
