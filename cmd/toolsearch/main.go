package main

import (
	"os"

	"toolsearch/cmd/toolsearch/internal/command"
)

func main() { os.Exit(command.Main(command.System(), os.Args[1:])) }
