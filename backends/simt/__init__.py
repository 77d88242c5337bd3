"""What devices that run blocks of threads share: printing, tiles of products, launches."""
