from cocanet.cli import main

main()
