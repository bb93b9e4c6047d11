import { QueryClient } from "@tanstack/react-query";
import { ApiError } from "./api";

/** Answers of the gateway that screens share. It is emptied when a session ends. */
export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      refetchOnWindowFocus: true,
      // What the gateway refuses it refuses again; only a missing answer is worth another try.
      retry: (count, error) => count < 2 && error instanceof ApiError && (error.status === 0 || error.status === 503),
    },
  },
});
